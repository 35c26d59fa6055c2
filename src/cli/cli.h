/* cli.h - what the commands share: their table, their inputs, how they fail, how rows look.
 *
 * The command is a user of the library: it sees include/headrace.h and nothing of src/ beside this folder
 * (tests/test_layers.py checks includes and symbols). What it lacks is missing in the public API.
 *
 * Each command is one file cmd_NAME.c with one command. It returns the exit status: 0, 1 after an error (one line on
 * standard error, by cli_failed), 2 after a wrong call (one line, by cli_misused or getopt). */
#ifndef HEADRACE_CLI_H
#define HEADRACE_CLI_H

#include <headrace.h>

#include <getopt.h>
#include <string.h>

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
    int (*run)(const struct command *cmd, int argc, char **argv); /* argv[0] is "headrace NAME" */
} command;

extern const command cmd_schema, cmd_head, cmd_count, cmd_stat, cmd_convert, cmd_sort, cmd_shuffle, cmd_sample,
    cmd_group, cmd_formats, cmd_functions;

/* --- main.c */
int cli_failed(hr_error *err);                       /* clears err; EXIT_FAILED */
void cli_warn(const char *fmt, ...) HR_PRINTF(1, 2); /* one line on standard error */
/* environment.c: HR_INVALID names a variable with a wrong value; warns of unknown ones. */
hr_status cli_check_environment(hr_error *err) HR_MUST_USE;
/* environment.c: the name that is most like `name`; NULL: none is. */
const char *cli_nearest(const char *name, const char *const *names, int n_names);
int cli_misused(const command *cmd, const char *fmt, ...) HR_PRINTF(2, 3); /* EXIT_MISUSED */
int cli_help(const command *cmd);                                          /* 0 */
hr_status cli_no_memory(hr_error *err, const char *what, int64_t n_bytes);
/* Grows *items to hold n of item_bytes each, doubling. false: no memory, *items unchanged. */
bool cli_grow(void *items, int64_t *cap, int64_t n, size_t item_bytes) HR_MUST_USE;

/* The options of every command that reads files, for its own getopt_long table and --help. */
#define INPUT_SHORT "f:o:m:h"
#define INPUT_LONG                                                                                                     \
    { "format", required_argument, NULL, 'f' }, { "option", required_argument, NULL, 'o' },                            \
        { "memory", required_argument, NULL, 'm' }, { "help", no_argument, NULL, 'h' }
#define INPUT_HELP                                                                                                     \
    "  -f, --format NAME        the files' format; default: by suffix and first bytes\n"                               \
    "  -o, --option NAME=VALUE  an option of the format, see headrace formats NAME; may be repeated\n"                 \
    "  -m, --memory BYTES       the limit for data, as 256MiB or 2GB; default: half of the memory\n"                   \
    "  -h, --help               this text\n"

/* The options of commands that can leave out rows, and of those that can leave out columns, too. */
enum { INPUT_FILTER = 1024 };
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
    char **columns;
    int64_t n_columns, cap_columns;
} input;
/* One option that getopt_long returned: true if it is one of INPUT_LONG but for --help, or of ROWS_LONG, and right. */
bool input_option(input *in, int option, char *value);
/* Adds the names of "a,b,c". */
hr_status input_columns(input *in, const char *text, hr_error *err) HR_MUST_USE;
/* The plan that reads the files left in argv. */
hr_status input_plan(const input *in, int argc, char **argv, hr_plan **out, hr_error *err) HR_MUST_USE;
void input_clear(input *in);

/* --- output.c: commands that read files and write others */

enum { OUTPUT_TO = 256, OUTPUT_PARTITION, OUTPUT_ROWS, OUTPUT_OVERWRITE, OUTPUT_FOLDER };
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

typedef struct output {
    const char *to;
    input write; /* its settings belong to the written format, its columns name folders */
    hr_write_options options;
    bool folder;
} output;
/* -1: not one of these options; else the exit status, 0: go on. */
int output_option(const command *cmd, output *a, int option, char *value);
hr_status output_place(output *a, const char *path, hr_error *err) HR_MUST_USE;
/* Writes all rows, and a line for each file to standard output. */
hr_status output_write(output *a, hr_plan *in, const char *path, hr_error *err) HR_MUST_USE;

/* The parts of a command "IN... OUT" that differ. Hooks may be NULL. */
typedef struct rewrite {
    const char *short_options;
    const struct option *long_options;
    void *context;
    int (*option)(const command *cmd, void *context, int option, char *value); /* -1: not mine; else the exit status */
    int (*check)(const command *cmd, void *context);                           /* after all options */
    hr_status (*plan)(void *context, hr_plan *in, hr_plan **out, hr_error *err); /* adds operators to the input */
} rewrite;
int rewrite_run(const command *cmd, const rewrite *r, int argc, char **argv);
int cli_seed(const command *cmd, const char *value, uint64_t *out); /* 0, or EXIT_MISUSED */

/* --- show.c: rows as text */

/* Columns side by side. Cells are cut to `width` characters (0: never); what a terminal would obey becomes visible. */
typedef struct grid {
    const struct ArrowSchema *schema; /* borrowed: of the rows */
    int n_columns;
    int width;
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

#endif
