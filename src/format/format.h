/* format.h - bytes to tables: formats, and scans, which are what a plan reads.
 *
 * A *format* (parquet, text, ...) knows one kind of file. A *scan* is a source of rows for the scheduler: files of one
 * format, tables in memory, a range of numbers. It is a list of files, each a list of *fragments* (a row group, a byte
 * range, one table) in one canonical order; that order and the row's number in its fragment make the row's coordinate.
 * A *reader* decodes rows [begin, begin + n) of one fragment into tables. Formats start no threads: the scheduler calls
 * readers of different fragments (or different row ranges of one) from different threads at the same time.
 *
 * Rules on which the scheduler depends:
 * 1. The fragments of a file depend on the file alone (never on threads or memory).
 * 2. A fragment whose n_rows is known and that is `splittable` can be read from any row, at a cost that hardly depends
 *    on the row.
 * 3. A reader's tables may break anywhere; their rows are in order, none is missing. Each has an origin (instance 0).
 * 4. Beside its output a reader holds one page per column, or 1 MiB; a CSV reader holds one fragment of at most 8 MiB
 *    and its index. All of it comes from `mem`. */
#ifndef HR_FORMAT_H
#define HR_FORMAT_H

#include "codec/codec.h"
#include "image/image_chain.h"
#include "data/data.h"
#include "expr/expr.h"
#include "io/io.h"

/* --- formats */

typedef struct hr_scan_file hr_scan_file;
typedef struct hr_reader hr_reader;
typedef struct hr_writer hr_writer;

typedef struct hr_fragment {
    int64_t n_rows;       /* -1: known only by reading */
    int64_t stored_bytes; /* of the projected columns, as stored */
    int64_t memory_bytes; /* estimate of the tables of its rows, projected columns only */
    bool splittable;      /* any row range may be read on its own */
} hr_fragment;

/* The projected top-level columns, by name and in this order; NULL: all. Formats never see n < 0: scan.c makes it
 * NULL. */
typedef struct hr_projection {
    int n;
    const char *const *names;
} hr_projection;

/* Counters of skipped rows and pages: ruled out by a filter, or damaged. */
typedef struct hr_skipped {
    atomic_llong fragments, rows; /* ruled out by statistics or an index; whole fragments */
    atomic_llong pages;           /* of columns; neither read nor decompressed */
    atomic_llong blooms;          /* values that a bloom filter ruled out */
    atomic_llong bad;             /* bad rows that an option skips */
} hr_skipped;

/* The most steps after the two steps of a reader of images, which are decode and resize. */
#define HR_OPEN_MAX_STEPS (HR_IMAGE_MAX_STEPS - 2)

/* A request to open a file. Zero: all of it, with default options. The call borrows everything. */
typedef struct hr_open {
    const void *options;             /* the format's, with defaults filled; outlives the file. NULL: it has none */
    const hr_projection *projection; /* NULL: all columns */
    /* The reader may skip rows for which this is not true, if statistics or an index rule them out. The other rows keep
     * their coordinates. The filter may use columns that are not projected. NULL: all rows. */
    hr_expr *filter;
    bool loose; /* the caller filters rows as fast: the reader skips only rows that statistics rule out */
    /* The scan's schema, if it is known. A format without types of its own (CSV, JSON) reads the columns as these
     * types. NULL: it infers them. A value that does not fit is an error naming file, line, column, expected and
     * found. */
    hr_schema *schema;
    bool declared; /* the user gave the schema; else it was inferred from other files */
    /* Steps (one at least, without decode) that the reader applies to the images of the format's image_column. NULL:
     * none. `dice`: seed, epoch and source instance of random steps. */
    const hr_image_chain *image_steps;
    hr_image_dice dice;
    hr_account *account;
    hr_skipped *skipped; /* counts skipped rows; outlives the file. NULL: not counted */
    hr_source *source;   /* by hr__scan_begin; NULL: the scan opens it */
    int64_t ahead;       /* bytes behind those that opening reads that may be announced meanwhile */
} hr_open;

/* An open file, made by a format; immutable once open, so that threads share it. Formats embed this struct first. */
typedef struct hr_scan_file_class {
    hr_status (*fragment)(hr_scan_file *f, int fragment, hr_fragment *out, hr_error *err);
    /* Rows [row_begin, row_begin + n_rows) of a fragment (n_rows < 0: to its end). mem: where the tables' buffers
     * go. */
    hr_status (*read)(hr_scan_file *f, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                      hr_reader **out, hr_error *err);
    /* NULL: no hint. Announces to the source that this fragment will be read soon. */
    void (*ahead)(hr_scan_file *f, int fragment);
    /* The same for rows [row_begin, row_begin + n_rows) of the fragment. NULL: a part cannot be announced. */
    void (*ahead_rows)(hr_scan_file *f, int fragment, int64_t row_begin, int64_t n_rows);
    /* The same file with other columns, without reading it again. NULL: the scan opens the file again. */
    hr_status (*project)(hr_scan_file *f, const hr_open *how, hr_scan_file **out, hr_error *err);
    /* What the file stores about a fragment, or, for -1, about itself (headrace stat): whole lines for people, or, with
     * json, members of an object, each after a comma. NULL: nothing beyond rows and bytes. */
    hr_status (*describe)(hr_scan_file *f, int fragment, bool json, hr_text *out, hr_error *err);
    void (*close)(hr_scan_file *f); /* frees what the class added, not `f`; `f` may be half made */
} hr_scan_file_class;

struct hr_scan_file {
    const hr_scan_file_class *cls;
    atomic_int refs;
    char *name;          /* path, for errors */
    hr_account *account; /* is charged for the memory of the open file */
    hr_schema *schema;   /* of the readers' tables: projected columns, in the projection's order */
    int n_fragments;
    int64_t n_rows; /* of the whole file; -1: known only by reading */
    int file;       /* number in its scan: enters the origins */
    int n_columns;  /* of the file, projected or not; 0: not known */
    bool is_remote; /* its bytes travel: what is read soon is announced, and waited for without a thread */
};
hr_scan_file *hr__scan_file_ref(hr_scan_file *f);
void hr__scan_file_unref(hr_scan_file *f); /* NULL is fine */
/* For formats: the schema of a file whose only column is `name`, or of none if the projection has none. HR_NOT_FOUND:
 * the projection names another column. */
hr_status hr__one_column_schema(const char *name, hr_type *type, bool nullable, const hr_projection *projection,
                                const char *path, hr_schema **out, hr_error *err) HR_MUST_USE;
/* For formats: the common part of a struct of `bytes`, the rest zero. Shares the account. */
hr_status hr__scan_file_new(const hr_scan_file_class *cls, size_t bytes, const char *name, hr_account *account,
                            hr_scan_file **out, hr_error *err) HR_MUST_USE;

typedef struct hr_reader_class {
    /* The next table, of about max_bytes at most (one row at least); *out NULL: the end. */
    hr_status (*next)(hr_reader *r, int64_t max_bytes, hr_table **out, hr_error *err);
    void (*close)(hr_reader *r);
} hr_reader_class;
struct hr_reader {
    const hr_reader_class *cls;
};
hr_status hr__reader_next(hr_reader *r, int64_t max_bytes, hr_table **out, hr_error *err) HR_MUST_USE;
void hr__reader_close(hr_reader *r); /* NULL is fine */
/* For readers: the row after the last one of [row_begin, row_begin + n_rows); n_rows < 0: INT64_MAX. */
static inline int64_t hr__rows_end(int64_t row_begin, int64_t n_rows)
{
    return n_rows < 0 || n_rows > INT64_MAX - row_begin ? INT64_MAX : row_begin + n_rows;
}
/* For readers: rows [row, row + n_rows) of a fragment as a table with their coordinates. Takes the columns of
 * f->schema, even on failure, and leaves NULLs. */
hr_status hr__file_table(const hr_scan_file *f, int fragment, int64_t row, int64_t n_rows, hr_array **takes,
                         hr_table **out, hr_error *err) HR_MUST_USE;
void hr__count_bad(hr_skipped *skipped, int64_t n); /* counts n skipped bad rows; NULL: not counted */

/* --- writers
 *
 * Rows become bytes in two steps: `encode` turns a table into an *encoded chunk* (a row group, some lines, some
 * records), on any thread and for many tables at once; `add` appends chunks to a file, serially and in order. So
 * encoding uses all threads, and the bytes of a file depend on the rows alone. */

/* Encoded rows. Belongs to the writer until `add`. */
typedef struct hr_encoded_chunk {
    hr_buffer *bytes; /* go into the file as they are; NULL: none */
    int64_t n_rows;
    void *notes; /* the format's, for its footer; NULL: none */
    void (*notes_free)(void *notes);
} hr_encoded_chunk;
void hr__encoded_chunk_clear(hr_encoded_chunk *p);

typedef struct hr_writer_class {
    size_t file_bytes; /* sizeof the state of one open file; zeroed before `begin` */
    hr_status (*encode)(const hr_writer *w, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out, hr_error *err);
    hr_status (*begin)(const hr_writer *w, void *file, hr_sink *sink,
                       hr_error *err); /* NULL: nothing before the chunks */
    hr_status (*add)(const hr_writer *w, void *file, hr_sink *sink, hr_encoded_chunk *p,
                     hr_error *err); /* NULL: the bytes */
    hr_status (*finish)(const hr_writer *w, void *file, hr_sink *sink,
                        hr_error *err);                 /* NULL: nothing after the chunks */
    void (*file_clear)(const hr_writer *w, void *file); /* NULL: nothing to free; runs always */
    void (*free)(hr_writer *w);                         /* frees all of it */
} hr_writer_class;

/* Immutable; used by all threads. */
struct hr_writer {
    const hr_writer_class *cls;
    const char *suffix;     /* of file names: ".parquet", ".csv.gz" */
    int64_t chunk_rows;     /* rows of each table for `encode` (but the last of a file); 0: any number */
    int64_t chunk_bytes;    /* > 0: a table ends earlier if it passes these bytes, or a small memory limit */
    int value_bytes;        /* least bytes of a number in `encode`, for estimates; 0: its width */
    bool file_for_each_row; /* images: `encode` gets one row, and the file is that chunk */
};

/* Where a format's `open` reads. */
typedef enum hr_opens { HR_OPENS_HEAD, HR_OPENS_TAIL, HR_OPENS_BOTH } hr_opens;

typedef struct hr_format {
    const char *name;
    const char *suffixes; /* separated by blanks, without dots */
    const char *doc;
    /* The column on which its readers do hr_open.image_steps. NULL: they do none. */
    const char *(*image_column)(const void *options);
    /* Bytes from a file's beginning that `open` reads where hr_open.schema is NULL; the scan announces them. NULL or 0:
     * it reads no more then, or announces them itself. */
    int64_t (*type_bytes)(const void *options);
    int row_growth; /* > 0: each file is one row (or none), which in memory is about this many times as large */
    hr_opens opens;
    const hr_option *options; /* NULL: none */
    size_t options_bytes;     /* sizeof its options struct */
    /* How many bits of the head match: the format with the most bits wins. NULL: by suffix only. */
    int (*bid)(hr_view head);
    /* Opens a file: reads the bytes that give schema and fragments (a footer). Shares source. `options`: of `options`
     * above, with defaults filled; outlives the file. HR_NOT_FOUND names a projected column that is not there. */
    hr_status (*open)(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err);
    /* Begins a family of files of one schema: see hr_writer. NULL: this format is only read. `options`: of
     * write_options, with defaults filled; copied if needed. HR_TYPE names a column that cannot be written. */
    const hr_option *write_options; /* NULL: none */
    size_t write_options_bytes;
    hr_status (*create)(hr_schema *schema, const void *options, hr_account *account, hr_writer **out, hr_error *err);
} hr_format;

/* All formats, one line each: FORMAT(x) declares hr__format_x and lists it. If only the suffix decides, the first
 * format with the suffix wins. */
#define HR_FORMATS(FORMAT)                                                                                             \
    FORMAT(parquet)                                                                                                    \
    FORMAT(csv)                                                                                                        \
    FORMAT(json)                                                                                                       \
    FORMAT(fwf)                                                                                                        \
    FORMAT(text)                                                                                                       \
    FORMAT(binary)                                                                                                     \
    FORMAT(numpy)                                                                                                      \
    FORMAT(images)                                                                                                     \
    FORMAT(tfrecords)                                                                                                  \
    FORMAT(webdataset)                                                                                                 \
    FORMAT(arrow)

#define HR_FORMAT_DECLARED(name) extern const hr_format hr__format_##name;
HR_FORMATS(HR_FORMAT_DECLARED)
extern const hr_format *const hr__formats[];           /* ends with NULL */
const hr_format *hr__format_by_name(const char *name); /* NULL: none */
void hr__format_near(const char *name, hr_near *out);  /* for that: hr__near_hint() gives the name most like it */
const hr_format *hr__format_guess(const char *path,
                                  hr_view head); /* by bid, then by suffix (also under .gz, .zst); NULL: none */
bool hr__format_same_suffix(const char *a, const char *b); /* of two paths, under that of a codec */

/* --- scans */

typedef struct hr_scan hr_scan; /* immutable, counted; safe in a forked child */

bool hr__scan_is_beginning(const hr_scan *s); /* its files are the first ones of the list: hr_read_options.first_page */
/* Files. Lists paths now; opens none. HR_NOT_FOUND, HR_INVALID name the path or option. Borrows `begun`: a scan of the
 * first files of the same list, which goes on behind them; NULL: none. */
hr_status hr__scan_new_files(const char *const *urls, int n_urls, const char *format, const hr_read_options *options,
                             const hr_scan *begun, hr_scan **out, hr_error *err) HR_MUST_USE;
/* Each table is one fragment of file 0. Shares the tables. Schemas must be equal. */
hr_status hr__scan_new_tables(hr_table *const *tables, int n, hr_scan **out, hr_error *err) HR_MUST_USE;
/* n_blocks fragments of equal size, except the last; n_blocks 0: fragments of 1 Mi rows. */
hr_status hr__scan_new_range(int64_t n, int64_t n_blocks, const char *name, hr_scan **out, hr_error *err) HR_MUST_USE;
/* Takes the stream; pulls all of it now, on the caller's thread; each batch with rows is one fragment. materialized.h
 * stores the batches: those that do not fit in half of the memory limit go to the disk. */
hr_status hr__scan_new_stream(struct ArrowArrayStream *stream, hr_scan **out, hr_error *err) HR_MUST_USE;
/* A user's own source: see hr_plan_source. Takes the context, even on failure. */
hr_status hr__scan_new_source(const hr_source_functions *functions, hr_scan **out, hr_error *err) HR_MUST_USE;
hr_scan *hr__scan_ref(hr_scan *s);
void hr__scan_unref(hr_scan *s);

int hr__scan_n_files(const hr_scan *s);
bool hr__scan_calls(const hr_scan *s);                      /* reading calls functions of the user */
const char *hr__scan_file_name(const hr_scan *s, int file); /* borrowed; "memory", "range" for those */
const char *hr__scan_file_path(const hr_scan *s, int file); /* the same, with the secrets of a URL */
/* Schema of all columns (also partition columns and the path): the caller's, the first file's, which is opened for it
 * once, or the schema of all files (options.unify). *out is new (a reference). */
hr_status hr__scan_schema(hr_scan *s, hr_schema **out, hr_error *err) HR_MUST_USE;
/* Opens file i; readers give the projected columns of the *scan's* schema, in the projection's order. A missing column
 * is null, another type is widened to the scan's (data/unify.c) or HR_TYPE: both files, the column, both types. Its
 * origins have file = i. A file that the filter rules out by its partition values is not opened: it has no fragments.
 * The first file, if it was opened for the schema, is not parsed again. The scan ignores options and schema of `how`;
 * with image_steps the image column has the type that the steps make. */
hr_status hr__scan_open(hr_scan *s, int file, const hr_open *how, hr_scan_file **out, hr_error *err) HR_MUST_USE;
/* Whether bytes of a file travel over a network. */
bool hr__scan_is_remote(const hr_scan *s, int file);
/* Announces what opening the file will read: *out (new; NULL: the file is local, or the filter rules it out) goes into
 * hr_open.source. hr__scan_announce repeats the announcement, for a wait. */
hr_status hr__scan_begin(hr_scan *s, int file, hr_expr *filter, hr_account *account, hr_source **out,
                         hr_error *err) HR_MUST_USE;
void hr__scan_announce(const hr_scan *s, hr_source *source);
bool hr__scan_has(const hr_scan *s, hr_source *source); /* what was announced is here */
/* Bytes that hr__scan_begin announces for a remote file. *whole: these are all of its bytes. */
int64_t hr__scan_open_bytes(const hr_scan *s, int file, bool *whole);
bool hr__scan_orders_files(const hr_scan *s); /* it reads files, in an order that may be random */
/* The order in which files are read in this epoch, file numbers, *out new (hr__free); NULL: by number. */
hr_status hr__scan_order(const hr_scan *s, uint64_t seed, int64_t epoch, int32_t **out, hr_error *err) HR_MUST_USE;
/* Threads for work on many files; exec (exec/parallel_call.c) sets the function when the library is loaded. It calls
 * fn(context, 0 .. n-1) on up to n_threads, in any order, and returns when all calls are done, or with the error of the
 * lowest i that failed. `waits`: fn waits for disks more than it computes. Not set: scans do all work on the calling
 * thread. */
typedef hr_status hr_each(int64_t n, int n_threads, bool waits, hr_share_fn *fn, void *context, hr_error *err);
void hr__scan_set_each(hr_each *each);
/* Rows of the whole scan from metadata (opens every file's footer); *out -1 if a file does not know its own. */
hr_status hr__scan_count(hr_scan *s, int64_t *out, hr_error *err) HR_MUST_USE;
/* Rows of file i, known after the first hr__scan_count of a scan of files, without I/O; -1: not known. */
int64_t hr__scan_file_rows(const hr_scan *s, int file);
/* Estimates the number of rows without I/O, by the sizes of the files and the rows of the first one. -1: unknown. */
int64_t hr__scan_guess_rows(const hr_scan *s);
/* The number of files that a filter does not rule out by their names alone (partition columns, the path). No I/O.
 * -1: not known. */
int hr__scan_files_left(const hr_scan *s, hr_expr *filter);
/* The column of images on which its readers do hr_open.image_steps, borrowed; NULL: there is none. */
const char *hr__scan_image_column(const hr_scan *s);
/* Approximate bytes in memory of a small file with one row (or none). -1: the file may hold any number of rows. */
int64_t hr__scan_row_bytes(const hr_scan *s, int file);
void hr__scan_describe(const hr_scan *s, hr_text *out); /* "read_parquet [3 files, 12.4 MB] a.parquet ..." */
void hr__scan_fingerprint(
    const hr_scan *s,
    hr_hash *h); /* hashes kind and options, and schema and rows of tables in memory; not the list of files */
/* An input of a scan, as positions store it (plan/inputs.c). */
typedef struct hr_scan_input {
    const char *name;          /* below the folder that all files of the scan share; borrowed */
    int64_t n_bytes, mtime_ns; /* when it was listed */
} hr_scan_input;
int hr__scan_n_inputs(const hr_scan *s); /* its files; 0: it reads none */
void hr__scan_input(const hr_scan *s, int i, hr_scan_input *out);
/* Hashes of the contents of files [begin, end): of some blocks of each file, the first and the last among them; the
 * number of files decides which blocks. They are read once. 0: not known, because the file differs from the listed one,
 * cannot be read, or because the scan has more than HR_MAX_HASHED_FILES. */
#define HR_MAX_HASHED_FILES 16384
hr_status hr__scan_input_hashes(hr_scan *s, int begin, int end, uint64_t *out, hr_error *err) HR_MUST_USE;
/* A hash of all values of the tables in memory; 0: there are none, or *stop came true before it is known (NULL: never).
 * Computed once. Any thread. */
uint64_t hr__scan_memory_digest(hr_scan *s, const atomic_bool *stop);
int64_t hr__scan_floor_bytes(const hr_scan *s); /* least memory for a read; an estimate without I/O */

#endif
