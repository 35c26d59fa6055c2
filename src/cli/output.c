/* output.c - what the commands share that write files: their options, and the place of OUT.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRINT_ROWS 40 /* of a table in place of OUT */

/* The name as the library has it; NULL: there is no such format. */
static const char *format_named(const char *name)
{
    hr_format_info info = { .struct_bytes = sizeof info };

    for (int i = 0; !hr_format_at(i, &info, NULL); i++)
        if (!strcmp(info.name, name))
            return info.name;
    return NULL;
}

static hr_status no_format(const char *name, hr_error *err)
{
    const char *names[64];
    hr_format_info info = { .struct_bytes = sizeof info };
    char hint[80];
    int n = 0;

    for (int i = 0; n < LEN(names) && !hr_format_at(i, &info, NULL); i++)
        if (info.can_write)
            names[n++] = info.name;
    return hr_error_set(err, HR_INVALID, "--to %s: no such format; headrace formats lists them%s", name,
                        cli_hint(name, names, n, hint, sizeof hint));
}

/* OUT is standard output: one file, whose format has to be named. */
static hr_status stream_place(output *a, hr_error *err)
{
    if (!a->to)
        return hr_error_set(err, HR_INVALID, "-: --to names the format that standard output gets, as --to csv");
    if (a->folder || a->options.max_rows_per_file || a->write.n_columns)
        return hr_error_set(err, HR_INVALID, "-: standard output is one file; expected the name of a folder");
    if (isatty(STDOUT_FILENO) && strcmp(a->to, "csv") != 0 && strcmp(a->to, "json") != 0)
        return hr_error_set(err, HR_INVALID, "-: standard output is a terminal, which cannot show %s files", a->to);
    a->stream = a->options.single_file = true;
    a->options.mode = HR_WRITE_APPEND;
    return HR_OK;
}

/* OUT is a file's name if it ends as files of the format do, and the files' folder otherwise. */
static hr_status output_place(output *a, const char *path, hr_error *err)
{
    const char *by_suffix = hr_format_of_path(path), *to = a->to ? format_named(a->to) : by_suffix;
    struct stat info;
    bool exists = stat(path, &info) == 0;

    if (!to && a->to)
        return no_format(a->to, err);
    if (!strcmp(path, "-"))
        return stream_place(a, err);
    if (!to)
        return hr_error_set(err, HR_INVALID, "%s: no format has files of this suffix; --to names one", path);
    a->to = to;
    a->folder = a->folder || (!by_suffix && !(exists && !S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))) ||
                a->options.max_rows_per_file || a->write.n_columns || path[strlen(path) - 1] == '/' ||
                (exists && S_ISDIR(info.st_mode));
    a->options.single_file = !a->folder;
    return HR_OK;
}

/* A signal that ends the command is delayed until the run has removed what it began: the kernel removes files without
 * a name, but not folders. */
static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
static volatile sig_atomic_t asked_to_end; /* the signal */

static void end_soon(int number) { asked_to_end = number; }

static bool is_to_end(void *context)
{
    (void)context;
    return asked_to_end != 0;
}

/* A signal that the parent ignores (nohup) stays ignored. A second signal of a kind ends the command at once. */
static void wait_for_signals(void)
{
    struct sigaction soon = { .sa_handler = end_soon, .sa_flags = (int)SA_RESETHAND }, now;

    for (int i = 0; i < LEN(signals); i++)
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaction(signals[i], &soon, NULL);
}

/* `headrace ... - | head`: ends as other commands do. The library reports the write as an error, since its threads get
 * no signals. */
static void end_without_reader(void)
{
    struct pollfd out = { .fd = STDOUT_FILENO };

    if (poll(&out, 1, 0) == 1 && out.revents & POLLERR)
        raise(SIGPIPE);
}

/* Prints a table that the write gave, one line for each file. */
static hr_status print_files(const hr_table *t, bool json, hr_error *err)
{
    char *text = NULL;
    hr_text_view names = { .struct_bytes = sizeof names };
    hr_column_view counts[2] = { { .struct_bytes = sizeof *counts }, { .struct_bytes = sizeof *counts } };

    if (json) {
        HR_TRY(hr_table_print_json(t, 0, hr_table_rows(t), &text, err));
        fputs(text, stdout);
        hr_string_free(text);
        return HR_OK;
    }
    HR_TRY(hr_table_text_view(t, 0, &names, err));
    for (int k = 0; k < 2; k++)
        HR_TRY(hr_table_column_view(t, k + 1, &counts[k], err));
    for (int64_t i = 0; i < names.n_rows; i++) {
        int64_t n;
        const char *name = hr_text_at(&names, i, &n);

        printf("%.*s\t%" PRId64 " rows\t%" PRId64 " bytes\n", (int)n, name ? name : "",
               ((const int64_t *)counts[0].data)[i], ((const int64_t *)counts[1].data)[i]);
    }
    return HR_OK;
}

/* Writes all rows, and a line for each file to standard output. */
static hr_status output_write(output *a, const input *files, hr_plan *in, const char *path, hr_error *err)
{
    hr_feed_options how = { .struct_bytes = sizeof how };
    progress bar = { 0 };
    hr_status st = HR_OK;
    hr_plan *p = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;

    a->options.format_options = a->write.settings;
    a->options.n_format_options = (int)a->write.n_settings;
    a->options.storage_options = files->storage;
    a->options.n_storage_options = (int)files->n_storage;
    a->options.partition_columns = (const char *const *)a->write.columns;
    a->options.n_partition_columns = (int)a->write.n_columns;
    HR_GO(hr_plan_write(in, a->to, a->stream ? "/dev/stdout" : path, &a->options, &p, err));
    if (!a->stream) /* nothing is to be removed; a full pipe would delay the end */
        wait_for_signals();
    HR_GO(hr_feed_open(p, &how, &f, err));
    hr_feed_set_interrupt(f, is_to_end, NULL);
    if (!files->quiet)
        progress_watch(&bar, f);
    for (;;) {
        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        progress_end(&bar);
        if (!a->stream)
            HR_GO(print_files(t, files->json, err));
        hr_table_unref(t);
        t = NULL;
    }
done:
    progress_end(&bar);
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
    if (st && a->stream)
        end_without_reader();
    if (asked_to_end) {
        fflush(stdout);
        signal(asked_to_end, SIG_DFL);
        raise(asked_to_end);
    }
    return st;
}

/* -1: not one of the output's options; else the exit status, 0: go on. */
static int output_option(const command *cmd, output *a, int option, char *value)
{
    hr_error err = HR_ERROR_INIT;

    switch (option) {
    case OUTPUT_TO: a->to = value; return 0;
    case OUTPUT_OVERWRITE: a->options.mode = HR_WRITE_OVERWRITE; return 0;
    case OUTPUT_FOLDER: a->folder = true; return 0;
    case OUTPUT_PRINT: a->print = true; return 0;
    case 'w': return input_option(&a->write, 'o', value) ? 0 : EXIT_MISUSED;
    case OUTPUT_PARTITION: return input_columns(&a->write, value, &err) ? cli_failed(&err) : 0;
    case OUTPUT_ROWS:
        if (!cli_count(value, INT64_MAX, &a->options.max_rows_per_file) || !a->options.max_rows_per_file)
            return cli_misused(cmd, "--max-rows-per-file %s: expected a number of rows", value);
        return 0;
    default: return -1;
    }
}

/* Handles one option: of the command, of the input, or of the output. */
static int read_option(const command *cmd, const rewrite *r, input *in, output *out, int option)
{
    int status = r->option ? r->option(cmd, r->context, option, optarg) : -1;

    if (status >= 0)
        return status;
    status = output_option(cmd, out, option, optarg);
    if (status >= 0)
        return status;
    return input_option(in, option, optarg) ? 0 : EXIT_MISUSED;
}

/* The rows as a table, or all of them as JSON lines. */
static hr_status print_rows(const input *in, hr_plan *p, hr_error *err)
{
    const show how = { .n_rows = in->json ? INT64_MAX : PRINT_ROWS,
                       .width = SHOW_WIDTH,
                       .json = in->json,
                       .quiet = in->quiet,
                       .counts_rest = true };

    return show_rows(p, &how, err);
}

/* Of the paths in argv from optind on, the last one is OUT unless rows are printed. */
static hr_status rewrite_files(const rewrite *r, input *in, output *out, int argc, char **argv, hr_error *err)
{
    hr_plan *p = NULL, *made = NULL;
    hr_status st = HR_OK;
    int end = out->print ? argc : argc - 1;

    if (!out->print)
        HR_GO(output_place(out, argv[end], err));
    HR_GO(pipes_open(argv + optind, end - optind, PIPE_ALL, err));
    HR_GO(input_plan(in, end, argv, &p, err));
    if (r->plan)
        HR_GO(r->plan(r->context, p, &made, err));
    if (out->print)
        HR_GO(print_rows(in, made ? made : p, err));
    else
        HR_GO(output_write(out, in, made ? made : p, argv[end], err));
done:
    hr_plan_unref(made);
    hr_plan_unref(p);
    return st;
}

static int check_paths(const command *cmd, const rewrite *r, output *out, int n)
{
    if (n == 1 && r->prints && !out->to)
        out->print = true;
    if (out->print && (out->to || out->folder || out->write.n_columns || out->options.max_rows_per_file))
        return cli_misused(cmd, "--print has no OUT, so the options of files have no meaning");
    if (n < 2 - out->print)
        return cli_misused(cmd, r->prints ? "expected IN... and OUT, or IN alone" : "expected IN... and OUT");
    return 0;
}

int rewrite_run(const command *cmd, const rewrite *r, int argc, char **argv)
{
    output out = { .options = { .struct_bytes = sizeof(hr_write_options), .mode = HR_WRITE_CREATE } };
    hr_error err = HR_ERROR_INIT;
    input in = { 0 };
    int status = 0, option;

    optind = 0;
    while (!status && (option = cli_option(cmd, argc, argv, r->short_options)) != -1) {
        if (option == 'h') {
            status = cli_help(cmd);
            goto done;
        }
        status = read_option(cmd, r, &in, &out, option);
    }
    if (!status)
        status = check_paths(cmd, r, &out, argc - optind);
    if (!status && r->check)
        status = r->check(cmd, r->context);
    if (!status && rewrite_files(r, &in, &out, argc, argv, &err))
        status = cli_failed(&err);
done:
    input_clear(&in);
    input_clear(&out.write);
    return status;
}

int cli_seed(const command *cmd, const char *value, uint64_t *out)
{
    char *end = NULL;

    errno = 0;
    *out = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno)
        return cli_misused(cmd, "--seed %s: expected a number from 0 to 2^64 - 1", value);
    return 0;
}
