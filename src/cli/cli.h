/* cli.h - what the commands share: their table, their inputs, how they fail, how rows look.
 *
 * Each command is one file cmd_NAME.c with one hr_command. It returns the exit status: 0, 1 after an error (one line on
 * standard error, by hr__cli_failed), 2 after a wrong call (one line, by hr__cli_misused or getopt). */
#ifndef HR_CLI_H
#define HR_CLI_H

#include "exec/exec.h"

#include <getopt.h>

#define HR_EXIT_FAILED 1
#define HR_EXIT_MISUSED 2

typedef struct hr_command {
    const char *name;
    const char *args;                                                /* as --help shows them */
    const char *doc;                                                 /* one line */
    const char *more;                                                /* the lines of --help about its options */
    int (*run)(const struct hr_command *cmd, int argc, char **argv); /* argv[0] is "headrace NAME" */
} hr_command;

extern const hr_command hr__cmd_schema, hr__cmd_head, hr__cmd_count, hr__cmd_stat, hr__cmd_convert, hr__cmd_sort,
    hr__cmd_shuffle, hr__cmd_sample, hr__cmd_group, hr__cmd_formats, hr__cmd_functions;

/* --- main.c */
int hr__cli_failed(hr_error *err);                                                /* clears err; HR_EXIT_FAILED */
int hr__cli_misused(const hr_command *cmd, const char *fmt, ...) HR_PRINTF(2, 3); /* HR_EXIT_MISUSED */
int hr__cli_help(const hr_command *cmd);                                          /* 0 */

/* The options of every command that reads files, for its own getopt_long table and --help. */
#define HR_INPUT_SHORT "f:o:m:h"
#define HR_INPUT_LONG                                                                                                  \
    { "format", required_argument, NULL, 'f' }, { "option", required_argument, NULL, 'o' },                            \
        { "memory", required_argument, NULL, 'm' }, { "help", no_argument, NULL, 'h' }
#define HR_INPUT_HELP                                                                                                  \
    "  -f, --format NAME        the files' format; else by suffix and first bytes\n"                                   \
    "  -o, --option NAME=VALUE  an option of the format, see headrace formats NAME; may be repeated\n"                 \
    "  -m, --memory BYTES       for data, as 256MiB or 2GB; default: half of the memory there is\n"                    \
    "  -h, --help               this text\n"

/* What was asked to be read. All-zero is empty; strings are those of argv, but for the columns. */
typedef struct hr_input {
    const char *format;
    const char **settings;
    int64_t n_settings, cap_settings;
    char **columns;
    int64_t n_columns, cap_columns;
} hr_input;
/* One option that getopt_long returned: true if it is one of HR_INPUT_LONG but for --help. */
bool hr__input_option(hr_input *in, int option, char *value);
/* Adds the names of "a,b,c". */
hr_status hr__input_columns(hr_input *in, const char *text, hr_error *err) HR_MUST_USE;
/* The plan that reads the files left in argv. */
hr_status hr__input_plan(const hr_input *in, int argc, char **argv, hr_plan **out, hr_error *err) HR_MUST_USE;
void hr__input_clear(hr_input *in);

/* --- output.c: commands that read files and write others */

enum { HR_OUTPUT_TO = 256, HR_OUTPUT_PARTITION, HR_OUTPUT_ROWS, HR_OUTPUT_OVERWRITE, HR_OUTPUT_FOLDER };
#define HR_OUTPUT_SHORT "c:w:"
#define HR_OUTPUT_LONG                                                                                                 \
    { "to", required_argument, NULL, HR_OUTPUT_TO }, { "write-option", required_argument, NULL, 'w' },                 \
        { "columns", required_argument, NULL, 'c' }, { "partition", required_argument, NULL, HR_OUTPUT_PARTITION },    \
        { "max-rows-per-file", required_argument, NULL, HR_OUTPUT_ROWS },                                              \
        { "overwrite", no_argument, NULL, HR_OUTPUT_OVERWRITE },                                                       \
    {                                                                                                                  \
        "folder", no_argument, NULL, HR_OUTPUT_FOLDER                                                                  \
    }
#define HR_OUTPUT_HELP                                                                                                 \
    "      --to FORMAT          what to write; else by OUT's suffix\n"                                                 \
    "  -w, --write-option NAME=VALUE  an option of what is written; may be repeated\n"                                 \
    "  -c, --columns A,B        only these columns, in this order; may be repeated\n"                                  \
    "      --partition A,B      a folder for each value of these columns\n"                                            \
    "      --max-rows-per-file N  files of at most so many rows, in the folder OUT\n"                                  \
    "      --folder             OUT is a folder, whatever its suffix\n"                                                \
    "      --overwrite          what is there is replaced when all is written; else that is an error\n"

typedef struct hr_output {
    const char *to;
    hr_input write; /* its settings are those of the format that is written, its columns name folders */
    hr_write_options options;
    bool folder;
} hr_output;
/* -1: none of these options; else the exit status, 0: go on. */
int hr__output_option(const hr_command *cmd, hr_output *a, int option, char *value);
hr_status hr__output_place(hr_output *a, const char *path, hr_error *err) HR_MUST_USE;
/* Writes all rows, and a line for each file to standard output. */
hr_status hr__output_write(hr_output *a, hr_plan *in, const char *path, hr_error *err) HR_MUST_USE;

/* A command "IN... OUT": what it has of its own. Hooks may be NULL. */
typedef struct hr_rewrite {
    const char *short_options;
    const struct option *long_options;
    void *context;
    int (*option)(const hr_command *cmd, void *context, int option,
                  char *value);                         /* -1: not mine; else the exit status */
    int (*check)(const hr_command *cmd, void *context); /* after all options */
    hr_status (*plan)(void *context, hr_plan *in, hr_plan **out, hr_error *err); /* what is done to the rows */
} hr_rewrite;
int hr__rewrite_run(const hr_command *cmd, const hr_rewrite *r, int argc, char **argv);
int hr__cli_seed(const hr_command *cmd, const char *value, uint64_t *out); /* 0, or HR_EXIT_MISUSED */

/* --- show.c: rows as text */

/* Each row one JSON object on a line. What JSON cannot say: NaN and infinities are null, bytes are base64,
 * times and decimals are strings, a map is a list of {"key", "value"}. */
void hr__show_json(const hr_table *t, hr_text *out);

/* Columns side by side. Cells are cut to `width` characters (0: never); what a terminal would obey becomes visible. */
typedef struct hr_grid {
    int width;
    int *widths;       /* of each column, so far */
    hr_text raw, cell; /* of the value in hand: as printed; cut and clean */
} hr_grid;
hr_status hr__grid_init(hr_grid *g, const hr_schema *s, int width, hr_error *err) HR_MUST_USE;
/* Widens the columns to what these rows need: once for the rows that decide how the page looks. */
void hr__grid_fit(hr_grid *g, const hr_table *t);
void hr__grid_head(hr_grid *g, const hr_schema *s, hr_text *out);
void hr__grid_rows(hr_grid *g, const hr_table *t, hr_text *out);
void hr__grid_clear(hr_grid *g);

#endif
