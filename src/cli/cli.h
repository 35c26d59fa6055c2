/* cli.h - what the commands share: their table, their inputs, how they fail, how rows look.
 *
 * The command is a user of the library: it sees include/headrace.h and nothing of src/ beside this folder
 * (tests/test_layers.py checks includes and symbols). What it lacks is missing in the public API.
 *
 * Each command is one file cmd_NAME.c with one command. It returns the exit status: 0, 1 after an error (one line on
 * standard error, by cli_failed), 2 after a wrong call (one line, by cli_misused). */
#ifndef HEADRACE_CLI_H
#define HEADRACE_CLI_H

#include <headrace.h>

#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* How functions that can fail pass an error on: return at once, or go to `done` with `st` set. */
#define HR_TRY(e)                                                                                                      \
    do {                                                                                                               \
        hr_status try_ = (e);                                                                                          \
        if (try_)                                                                                                      \
            return try_;                                                                                               \
    } while (0)
#define HR_GO(e)                                                                                                       \
    do {                                                                                                               \
        if ((st = (e)))                                                                                                \
            goto done;                                                                                                 \
    } while (0)
#define LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))

#define EXIT_FAILED 1
#define EXIT_MISUSED 2

/* The whole command. argv[0] is the name of the program. Returns its exit status. */
int cli_main(int argc, char **argv);

typedef struct command {
    const char *name;
    const char *args;                                             /* as --help shows them */
    const char *doc;                                              /* one line */
    const char *more;                                             /* the lines of --help about its options */
    const struct option *options;                                 /* for getopt_long and for the shell's completion */
    int (*run)(const struct command *cmd, int argc, char **argv); /* argv[0] is "headrace NAME" */
} command;

extern const command cmd_schema, cmd_head, cmd_count, cmd_stat, cmd_convert, cmd_sort, cmd_shuffle, cmd_sample,
    cmd_group, cmd_distinct, cmd_explode, cmd_ls, cmd_clean, cmd_formats, cmd_functions, cmd_completion;

/* --- main.c */
const command *cli_command(int i);                                         /* NULL: there are fewer */
int cli_failed(hr_error *err);                                             /* clears err; EXIT_FAILED */
void cli_warn(const char *fmt, ...) HR_PRINTF(1, 2);                       /* one line on standard error */
int cli_misused(const command *cmd, const char *fmt, ...) HR_PRINTF(2, 3); /* EXIT_MISUSED */
int cli_help(const command *cmd);                                          /* 0 */
hr_status cli_no_memory(hr_error *err, const char *what, int64_t n_bytes);
/* Grows *items to hold n of item_bytes each, doubling. false: no memory, *items unchanged. */
bool cli_grow(void *items, int64_t *cap, int64_t n, size_t item_bytes) HR_MUST_USE;
/* environment.c: HR_INVALID names a variable with a wrong value; warns of unknown ones. */
hr_status cli_check_environment(hr_error *err) HR_MUST_USE;
/* environment.c: the name that is most like `name`; NULL: none is. */
const char *cli_nearest(const char *name, const char *const *names, int n_names);
/* environment.c: the same as the end of a message, "; did you mean 'x'?" or "", in `out`. */
const char *cli_hint(const char *name, const char *const *names, int n_names, char *out, size_t cap);
/* options.c: getopt_long() whose errors, '?', are one line by cli_misused. */
int cli_option(const command *cmd, int argc, char **argv, const char *short_options);

/* --- terminal.c */
const char *cli_bytes(double n, char out[32]); /* "1.5 MB" */
bool cli_colours(FILE *to);                    /* a terminal, and neither NO_COLOR nor TERM=dumb; or CLICOLOR_FORCE */

/* Tells on the terminal how far a run is, from its second second on. Nothing if standard error is no terminal. */
typedef struct progress {
    struct timespec began;
    double every_s, next_s; /* a new line that often, and when the next is due; 0: one line, in place */
    bool shown;
} progress;
void progress_watch(progress *p, hr_feed *f); /* until the feed is closed */
void progress_end(progress *p);               /* takes the line away */
/* The value of HEADRACE_PROGRESS: 0 for "auto" or none, -1 for "off", else seconds; false: it is none of them. */
bool cli_progress_seconds(const char *text, int *out);

/* --- pipes.c: standard input (`-`) and other pipes, which are read once
 *
 * A pipe becomes a file without a name in the spill folder, since most formats read their files at any offset. */
#define PIPE_ALL INT64_MAX
/* Takes pipes and `-` out of paths[0 .. n): each becomes the name of its copy, valid until pipes_clear. Copies up to
 * `n_bytes` of each, cut after a line, if it holds lines of text; else all of it. */
hr_status pipes_open(char **paths, int n, int64_t n_bytes, hr_error *err) HR_MUST_USE;
bool pipes_ended(void);                                           /* all are copied whole */
hr_status pipes_more(int64_t n_bytes, hr_error *err) HR_MUST_USE; /* goes on with all of them */
/* Prints `text` with the names that the user knows for those of copies, and without what a terminal would obey.
 * one_line: nor the ends of lines. */
void pipes_print(FILE *to, const char *text, bool one_line);
void pipes_clear(void);

/* --- input.c: the options of every command that reads files, for its own getopt_long table and --help. */
enum { INPUT_FILTER = 1024, INPUT_STORAGE, INPUT_FOLDERS, INPUT_UNIFY };
#define STORAGE_LONG { "storage-option", required_argument, NULL, INPUT_STORAGE }
#define STORAGE_HELP                                                                                                   \
    "      --storage-option NAME=VALUE  how URLs are reached, as endpoint=http://host:9000; may be repeated; other\n"  \
    "                           users see it in the list of processes: keys belong into the environment\n"
#define INPUT_SHORT "f:o:m:jqh"
#define INPUT_LONG                                                                                                     \
    { "format", required_argument, NULL, 'f' }, { "option", required_argument, NULL, 'o' }, STORAGE_LONG,              \
        { "partitioning", required_argument, NULL, INPUT_FOLDERS }, { "unify", required_argument, NULL, INPUT_UNIFY }, \
        { "memory", required_argument, NULL, 'm' }, { "json", no_argument, NULL, 'j' },                                \
        { "quiet", no_argument, NULL, 'q' }, { "help", no_argument, NULL, 'h' }
#define INPUT_HELP                                                                                                     \
    "  -f, --format NAME        the files' format; default: by suffix and first bytes\n"                               \
    "  -o, --option NAME=VALUE  an option of the format, see headrace formats NAME; may be repeated\n"                 \
    "      --partitioning HOW   hive: folders 'year=2024' are text columns, the default; none: they are not\n"         \
    "      --unify WHICH        the columns of the first file (first, the default), or of all files (all)\n"           \
    "  -m, --memory BYTES       the limit for data, as 256MiB or 2GB; default: half of the memory\n"                   \
    "  -j, --json               prints one JSON object a line\n"                                                       \
    "  -q, --quiet              no progress on the terminal\n"                                                         \
    "  -h, --help               this text\n"                                                                           \
    "\nA FILE or IN is a file, a folder, a glob pattern, a URL of one, or - for standard input.\n"

/* The options of commands that can leave out rows, and of those that can leave out columns, too. */
#define FILTER_LONG { "filter", required_argument, NULL, INPUT_FILTER }
#define FILTER_HELP                                                                                                    \
    "      --filter EXPR        only the rows for which it is true, as 'x > 3 and is_in(k, [1, 2])'; may be "          \
    "repeated\n"
#define ROWS_SHORT "c:"
#define ROWS_LONG { "columns", required_argument, NULL, 'c' }, { "select", required_argument, NULL, 'c' }, FILTER_LONG
#define ROWS_HELP                                                                                                      \
    "  -c, --columns A,B        only these columns, in this order; may be repeated; --select is the "                  \
    "same\n" FILTER_HELP

/* The input of a command. All zero is empty; strings are those of argv, but for the columns. */
typedef struct input {
    const char *format;
    hr_expr *filter; /* NULL: all rows */
    const char **settings;
    int64_t n_settings, cap_settings;
    const char **storage; /* "name=value", of --storage-option */
    int64_t n_storage, cap_storage;
    char **columns;
    int64_t n_columns, cap_columns;
    bool json, quiet;
    bool plain_folders; /* folders "key=value" are no columns */
    bool unify;         /* the columns of all files */
} input;
/* One option that getopt_long returned: true if it is one of INPUT_LONG but for --help, or of ROWS_LONG, and right. */
bool input_option(input *in, int option, char *value);
/* Adds the names of "a,b,c". */
hr_status input_columns(input *in, const char *text, hr_error *err) HR_MUST_USE;
/* The plan that reads the files left in argv. */
hr_status input_plan(input *in, int argc, char **argv, hr_plan **out, hr_error *err) HR_MUST_USE;
void input_clear(input *in);

/* The parts of a command "FILE..." that differ: it prints something about the files. Hooks may be NULL. */
typedef struct inspect {
    const char *short_options;
    void *context;
    int (*option)(const command *cmd, void *context, int option, char *value); /* -1: not mine; else the exit status */
    hr_status (*print)(void *context, const input *in, hr_plan *p, hr_error *err);
    /* Of pipes: whether the rows that were copied suffice. NULL: they are copied whole. */
    bool (*suffices)(void *context, hr_plan *p);
    /* *done: the command has printed the path without a plan. */
    hr_status (*own)(const input *in, const char *path, bool *done, hr_error *err);
} inspect;
int inspect_run(const command *cmd, const inspect *how, int argc, char **argv);

/* --- stat_zarr.c: prints the arrays of a Zarr store, and the advice on them. *done: whether the path is one. */
hr_status stat_zarr(const char *path, const input *in, bool *done, hr_error *err) HR_MUST_USE;

/* --- zarr_arrays.c */
#define ZARR_MOST_AXES 32
typedef struct zarr_array {
    char *path;
    char type[64];
    int n_axes;
    int64_t shape[ZARR_MOST_AXES], chunks[ZARR_MOST_AXES], shards[ZARR_MOST_AXES];
    bool has_shards;
    int64_t item_bytes, n_chunks, chunk_bytes;
} zarr_array;
typedef struct zarr_arrays {
    zarr_array *items;
    int64_t n, cap;
    bool is_store; /* it may have no arrays */
} zarr_arrays;
/* The arrays of the store at a path or URL, which must be zero before; !is_store: there is none. */
hr_status zarr_find(const char *path, const input *in, zarr_arrays *out, hr_error *err) HR_MUST_USE;
void zarr_clear(zarr_arrays *all);
int64_t zarr_pieces(int64_t n, int64_t each); /* n / each, rounded up */

/* --- output.c: commands that read files and write others */

enum { OUTPUT_TO = 256, OUTPUT_PARTITION, OUTPUT_ROWS, OUTPUT_OVERWRITE, OUTPUT_FOLDER, OUTPUT_PRINT };
#define OUTPUT_SHORT "w:" ROWS_SHORT
#define OUTPUT_LONG                                                                                                    \
    { "to", required_argument, NULL, OUTPUT_TO }, { "write-option", required_argument, NULL, 'w' },                    \
        { "partition", required_argument, NULL, OUTPUT_PARTITION },                                                    \
        { "max-rows-per-file", required_argument, NULL, OUTPUT_ROWS },                                                 \
        { "overwrite", no_argument, NULL, OUTPUT_OVERWRITE }, { "folder", no_argument, NULL, OUTPUT_FOLDER },          \
        ROWS_LONG
#define OUTPUT_HELP                                                                                                    \
    "      --to FORMAT          the format of OUT; default: by its suffix\n"                                           \
    "  -w, --write-option NAME=VALUE  an option of the written format; may be repeated\n"                              \
    "      --partition A,B      a folder for each value of these columns\n"                                            \
    "      --max-rows-per-file N  the maximum of rows in each file of the folder OUT\n"                                \
    "      --folder             OUT is a folder, whatever its suffix\n"                                                \
    "      --overwrite          replaces existing files when all rows are written; default: an error\n" ROWS_HELP

/* Of commands that print their rows where no OUT is given. */
#define PRINT_LONG { "print", no_argument, NULL, OUTPUT_PRINT }
#define PRINT_HELP                                                                                                     \
    "      --print              there is no OUT: prints the first rows as a table, or all of them with --json;\n"      \
    "                           one IN alone does the same\n"

typedef struct output {
    const char *to;
    input write; /* its settings belong to the written format, its columns name folders */
    hr_write_options options;
    bool folder;
    bool print;  /* to the terminal, as people read rows */
    bool stream; /* OUT is - */
} output;

/* The parts of a command "IN... OUT" that differ. Hooks may be NULL. */
typedef struct rewrite {
    const char *short_options;
    bool prints; /* it has PRINT_LONG */
    void *context;
    int (*option)(const command *cmd, void *context, int option, char *value); /* -1: not mine; else the exit status */
    int (*check)(const command *cmd, void *context);                           /* after all options */
    hr_status (*plan)(void *context, hr_plan *in, hr_plan **out, hr_error *err); /* adds operators to the input */
} rewrite;
int rewrite_run(const command *cmd, const rewrite *r, int argc, char **argv);
int cli_seed(const command *cmd, const char *value, uint64_t *out); /* 0, or EXIT_MISUSED */
/* A whole number from 0 to `max`; false for anything else. */
bool cli_count(const char *text, int64_t max, int64_t *out);

/* --- show.c: rows as text */

/* Columns side by side. Cells are cut to `width` characters (0: never); what a terminal would obey becomes visible. */
typedef struct grid {
    const struct ArrowSchema *schema; /* borrowed: of the rows */
    int n_columns;
    int width;
    bool colours;
    int *widths;      /* of each column, so far */
    char *raw, *cell; /* of the value in hand: as printed; cut and clean */
    int64_t cap, n_cell;
} grid;
hr_status grid_init(grid *g, const struct ArrowSchema *schema, int width, hr_error *err) HR_MUST_USE;
/* Widens the columns to what these rows need: once for the rows that decide how the page looks. */
hr_status grid_fit(grid *g, const hr_table *t, hr_error *err) HR_MUST_USE;
hr_status grid_head(grid *g, hr_error *err) HR_MUST_USE;
hr_status grid_rows(grid *g, const hr_table *t, hr_error *err) HR_MUST_USE;
void grid_clear(grid *g);
/* Prints `s` as a JSON string; invalid UTF-8 becomes U+FFFD. */
void json_text(const char *s, int64_t n);
/* Prints an object {"KIND": name, "default": ..., "doc": ...} for each line of hr_format_options. */
void json_options(const char *kind, const char *lines);

/* --- rows.c: the rows of a plan on standard output */
#define SHOW_WIDTH 40 /* characters of a cell, unless the user says otherwise */
typedef struct show {
    int64_t n_rows; /* at most */
    int width;      /* as grid.width */
    bool json, quiet;
    bool counts_rest; /* the last line of a table says whether there are more rows */
} show;
hr_status show_rows(hr_plan *p, const show *how, hr_error *err) HR_MUST_USE;

#endif
