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

static const command *const commands[] = { &cmd_schema,  &cmd_head,     &cmd_count,     &cmd_stat,
                                           &cmd_convert, &cmd_sort,     &cmd_shuffle,   &cmd_sample,
                                           &cmd_group,   &cmd_distinct, &cmd_explode,   &cmd_ls,
                                           &cmd_clean,   &cmd_formats,  &cmd_functions, &cmd_completion };

const command *cli_command(int i) { return i < LEN(commands) ? commands[i] : NULL; }

/* A file name may have any byte. A message stays one line, and a terminal gets no control characters. */
static void print_error(const char *where, const char *text)
{
    bool colours = cli_colours(stderr);

    fprintf(stderr, "%s%s:%s ", colours ? "\033[1;31m" : "", where, colours ? "\033[0m" : "");
    pipes_print(stderr, text, true);
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
         "Shows, converts, sorts, shuffles, samples and groups the rows of files, folders, glob patterns and pipes.\n");
    for (int i = 0; i < LEN(commands); i++)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->doc);
    puts("\n  headrace COMMAND --help prints the options of a command, headrace --version the version.\n\n"
         "environment:\n"
         "  HEADRACE_NUM_THREADS     threads that read; default: the CPUs that the process may use\n"
         "  HEADRACE_AUTOTUNE        off: that number stays; default: on, it moves with what is measured\n"
         "  HEADRACE_NETWORK_THREADS  threads that move bytes of stores, 1 to 9; default: as many as are busy\n"
         "  HEADRACE_MEMORY_LIMIT    bytes for data, as 256MiB or 2GB; default: half of the memory\n"
         "  HEADRACE_SPILL_DIR       the folder of data that does not fit into memory; default: TMPDIR, /tmp\n"
         "  HEADRACE_CACHE_DIR       the folder that keeps what was read from stores; default: none\n"
         "  HEADRACE_CACHE_SIZE      the maximum of bytes in that folder; default: 64GiB\n"
         "  HEADRACE_SHARE_CREDENTIALS  off: processes do not share what services of credentials give\n"
         "  HEADRACE_SPILL_QUOTA     the maximum of bytes in that folder; default: the disk but for 2 %\n"
         "  HEADRACE_STALL_WARNING   seconds after which a run in which nothing moves is explained; default: 10\n"
         "  HEADRACE_STALL_TIMEOUT   seconds after which it is an error; default: 0, never\n"
         "  HEADRACE_TRACE           a file that gets the timeline of the run: trace.json or trace.json.gz\n"
         "  HEADRACE_PROGRESS        off, or seconds between lines where there is no terminal; default: auto\n"
         "  NO_COLOR                 any value: no colours on a terminal");
    return 0;
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
    const char *names[LEN(commands)];
    char hint[80];

    for (int i = 0; i < LEN(commands); i++)
        names[i] = commands[i]->name;
    cli_hint(what, names, LEN(commands), hint, sizeof hint);
    return cli_misused(NULL, "no command '%s'%s", what, *hint ? hint : "; headrace --help lists them");
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

/* What the engine has to say beside errors. */
static void show_line(void *context, hr_log_level level, const char *text)
{
    (void)context;
    if (level >= HR_LOG_WARNING)
        cli_warn("%s", text);
}

int cli_main(int argc, char **argv)
{
    int status;

    signal(SIGPIPE, SIG_DFL);
    hr_set_log(show_line, NULL);
    status = dispatch(argc, argv);
    hr_set_log(NULL, NULL);
    pipes_clear();
    if (fflush(stdout) || ferror(stdout)) {
        print_error("headrace: standard output", strerror(errno));
        status = EXIT_FAILED;
    }
    return status;
}
