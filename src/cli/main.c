/* main.c - the headrace command: finds the subcommand, and has what all of them share.
 *
 * Exit status: 0, 1 after an error, 2 after a wrong call. An error is one line on standard error. When the reader of
 * standard output ends (`headrace head FILE | head -1`), SIGPIPE ends the command without a message, whatever the
 * parent set for that signal. main() flushes standard output, so that a full disk is an error.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const command *const commands[] = { &cmd_schema,  &cmd_head,    &cmd_count,    &cmd_stat,
                                           &cmd_convert, &cmd_sort,    &cmd_shuffle,  &cmd_sample,
                                           &cmd_group,   &cmd_formats, &cmd_functions };

/* A file name may have any byte. A message stays one line, and a terminal gets no control characters. */
static void print_error(const char *where, const char *text)
{
    fprintf(stderr, "%s: ", where);
    for (; *text; text++)
        fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, stderr);
    fputc('\n', stderr);
}

void cli_warn(const char *fmt, ...)
{
    char text[500];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    print_error("headrace", text);
}

int cli_failed(hr_error *err)
{
    print_error("headrace", err->text[0] ? err->text : hr_status_text(err->status));
    hr_error_clear(err);
    return EXIT_FAILED;
}

int cli_misused(const command *cmd, const char *fmt, ...)
{
    char where[64], text[500];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    snprintf(where, sizeof where, "headrace%s%s", cmd ? " " : "", cmd ? cmd->name : "");
    print_error(where, text);
    return EXIT_MISUSED;
}

int cli_help(const command *cmd)
{
    printf("usage: headrace %s %s\n\n%s.\n\n%s", cmd->name, cmd->args, cmd->doc, cmd->more);
    return 0;
}

hr_status cli_no_memory(hr_error *err, const char *what, int64_t n_bytes)
{
    return hr_error_set(err, HR_NO_MEMORY, "%s: no memory for %lld bytes", what, (long long)n_bytes);
}

bool cli_grow(void *items, int64_t *cap, int64_t n, size_t item_bytes)
{
    int64_t more = *cap < 8 ? 8 : 2 * *cap;
    void *grown;

    if (n <= *cap)
        return true;
    memcpy(&grown, items, sizeof grown);
    if (!(grown = realloc(grown, (size_t)(more < n ? n : more) * item_bytes)))
        return false;
    memcpy(items, &grown, sizeof grown);
    *cap = more < n ? n : more;
    return true;
}

static int help(void)
{
    puts("usage: headrace COMMAND [OPTION]... [FILE]...\n\n"
         "Shows, converts, sorts, shuffles, samples and groups the rows of files, folders and glob patterns.\n");
    for (int i = 0; i < LEN(commands); i++)
        printf("  %-9s %s\n", commands[i]->name, commands[i]->doc);
    puts("\n  headrace COMMAND --help prints the options of a command, headrace --version the version.\n\n"
         "environment:\n"
         "  HEADRACE_NUM_THREADS     threads that read; default: the CPUs that the process may use\n"
         "  HEADRACE_MEMORY_LIMIT    bytes for data, as 256MiB or 2GB; default: half of the memory\n"
         "  HEADRACE_SPILL_DIR       the folder of data that does not fit into memory; default: TMPDIR, /tmp\n"
         "  HEADRACE_SPILL_QUOTA     the maximum of bytes in that folder; default: the disk but for 2 %");
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- inputs */

static bool set_memory(const char *value)
{
    hr_error err = HR_ERROR_INIT;
    int64_t n_bytes = 0;
    hr_status st = hr_parse_bytes(value, &n_bytes, &err);

    if (!st && n_bytes < 1)
        st = hr_error_set(&err, HR_INVALID, "'%s': expected 1 byte or more", value);
    if (!st)
        st = hr_set_memory_limit(n_bytes, &err);
    if (!st)
        return true;
    print_error("headrace: --memory", err.text);
    hr_error_clear(&err);
    return false;
}

/* Rows must pass all filters. */
static hr_status add_filter(input *in, const char *text, hr_error *err)
{
    hr_expr *more = NULL, *both[] = { in->filter, NULL };
    hr_status st;

    HR_TRY(hr_expr_parse(text, &more, err));
    if (!in->filter) {
        in->filter = more;
        return HR_OK;
    }
    both[1] = more;
    st = hr_expr_call("and", both, 2, NULL, 0, &in->filter, err);
    hr_expr_unref(both[0]);
    hr_expr_unref(more);
    return st;
}

bool input_option(input *in, int option, char *value)
{
    hr_error err = HR_ERROR_INIT;

    if (option == 'm')
        return set_memory(value);
    if (option == INPUT_FILTER || option == 'c') {
        if (!(option == 'c' ? input_columns(in, value, &err) : add_filter(in, value, &err)))
            return true;
        print_error(option == 'c' ? "headrace: --columns" : "headrace: --filter", err.text);
        hr_error_clear(&err);
        return false;
    }
    if (option == 'f') {
        in->format = value;
        return true;
    }
    if (option != 'o')
        return false;
    if (!cli_grow(&in->settings, &in->cap_settings, in->n_settings + 1, sizeof *in->settings)) {
        print_error("headrace", "no memory for an option");
        return false;
    }
    in->settings[in->n_settings++] = value;
    return true;
}

hr_status input_columns(input *in, const char *text, hr_error *err)
{
    for (;; text++) {
        size_t n = strcspn(text, ",");
        char *name = strndup(text, n);

        if (!name || !cli_grow(&in->columns, &in->cap_columns, in->n_columns + 1, sizeof *in->columns)) {
            free(name);
            return cli_no_memory(err, "--columns", (int64_t)n + 1);
        }
        in->columns[in->n_columns++] = name;
        text += n;
        if (!*text)
            return HR_OK;
    }
}

hr_status input_plan(const input *in, int argc, char **argv, hr_plan **out, hr_error *err)
{
    hr_read_options options = { .struct_bytes = sizeof options };
    const char *const *columns = in->n_columns ? (const char *const *)in->columns : NULL;
    hr_plan *all = NULL, *kept = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    options.columns = in->filter ? NULL : columns; /* a filter may use others */
    options.n_columns = in->filter ? 0 : (int)in->n_columns;
    options.format_options = in->settings;
    options.n_format_options = (int)in->n_settings;
    HR_GO(hr_plan_read((const char *const *)argv + optind, argc - optind, in->format, &options, &all, err));
    if (in->filter)
        HR_GO(hr_plan_filter_expr(all, in->filter, &kept, err));
    if (kept && columns)
        HR_GO(hr_plan_project(kept, columns, NULL, (int)in->n_columns, out, err));
    else
        *out = hr_plan_ref(kept ? kept : all);
done:
    hr_plan_unref(kept);
    hr_plan_unref(all);
    return st;
}

void input_clear(input *in)
{
    for (int64_t i = 0; i < in->n_columns; i++)
        free(in->columns[i]);
    free(in->columns);
    free(in->settings);
    hr_expr_unref(in->filter);
    *in = (input){ 0 };
}

/* ------------------------------------------------------------------------------------------------------------ main */

static int run_command(const command *cmd, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    char name[64];

    if (cli_check_environment(&err))
        return cli_failed(&err);
    snprintf(name, sizeof name, "headrace %s", cmd->name);
    argv[0] = name; /* what getopt_long calls us in its messages */
    return cmd->run(cmd, argc, argv);
}

static int no_command(const char *what)
{
    const char *names[LEN(commands)], *near;

    for (int i = 0; i < LEN(commands); i++)
        names[i] = commands[i]->name;
    near = cli_nearest(what, names, LEN(commands));
    if (near)
        return cli_misused(NULL, "no command '%s'; did you mean '%s'?", what, near);
    return cli_misused(NULL, "no command '%s'; headrace --help lists them", what);
}

static int dispatch(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : NULL;

    if (!what)
        return cli_misused(NULL, "no COMMAND is given; headrace --help lists them");
    if (!strcmp(what, "--help") || !strcmp(what, "-h") || !strcmp(what, "help"))
        return help();
    if (!strcmp(what, "--version")) {
        printf("headrace %s\n", hr_version());
        return 0;
    }
    for (int i = 0; i < LEN(commands); i++)
        if (!strcmp(what, commands[i]->name))
            return run_command(commands[i], argc - 1, argv + 1);
    return no_command(what);
}

int cli_main(int argc, char **argv)
{
    int status;

    signal(SIGPIPE, SIG_DFL);
    status = dispatch(argc, argv);
    if (fflush(stdout) || ferror(stdout)) {
        print_error("headrace: standard output", strerror(errno));
        status = EXIT_FAILED;
    }
    return status;
}
