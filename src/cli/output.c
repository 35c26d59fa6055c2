/* output.c - what the commands that write files share: their options, and the place of OUT.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* The name as the library has it; NULL: there is no such format. */
static const char *format_named(const char *name)
{
    hr_format_info info = { .struct_bytes = sizeof info };

    for (int i = 0; !hr_format_at(i, &info, NULL); i++)
        if (!strcmp(info.name, name))
            return info.name;
    return NULL;
}

/* OUT is a file's name if it ends as files of the format do, and the files' folder otherwise. */
hr_status output_place(output *a, const char *path, hr_error *err)
{
    const char *by_suffix = hr_format_of_path(path), *to = a->to ? format_named(a->to) : by_suffix;
    struct stat info;

    if (strcmp(path, "-") == 0)
        return hr_error_set(err, HR_INVALID,
                            "-: OUT is the name of a file or folder; headrace head --json prints rows");
    if (!to && a->to)
        return hr_error_set(err, HR_INVALID, "--to %s: no such format; headrace formats lists them", a->to);
    if (!to)
        return hr_error_set(err, HR_INVALID, "%s: no format has files of this suffix; --to names one", path);
    a->to = to;
    a->folder = a->folder || !by_suffix || a->options.max_rows_per_file || a->write.n_columns ||
                path[strlen(path) - 1] == '/' || (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
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

/* Prints a table that the write gave, one line for each file. */
static hr_status print_files(const hr_table *t, hr_error *err)
{
    hr_text_view names = { .struct_bytes = sizeof names };
    hr_column_view counts[2] = { { .struct_bytes = sizeof *counts }, { .struct_bytes = sizeof *counts } };

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

hr_status output_write(output *a, hr_plan *in, const char *path, hr_error *err)
{
    hr_feed_options how = { .struct_bytes = sizeof how };
    hr_status st = HR_OK;
    hr_plan *p = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;

    a->options.format_options = a->write.settings;
    a->options.n_format_options = (int)a->write.n_settings;
    a->options.partition_columns = (const char *const *)a->write.columns;
    a->options.n_partition_columns = (int)a->write.n_columns;
    HR_GO(hr_plan_write(in, a->to, path, &a->options, &p, err));
    wait_for_signals();
    HR_GO(hr_feed_open(p, &how, &f, err));
    hr_feed_set_interrupt(f, is_to_end, NULL);
    for (;;) {
        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        HR_GO(print_files(t, err));
        hr_table_unref(t);
        t = NULL;
    }
done:
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
    if (asked_to_end) {
        fflush(stdout);
        signal(asked_to_end, SIG_DFL);
        raise(asked_to_end);
    }
    return st;
}

int output_option(const command *cmd, output *a, int option, char *value)
{
    hr_error err = HR_ERROR_INIT;
    char *end = NULL;

    switch (option) {
    case OUTPUT_TO: a->to = value; return 0;
    case OUTPUT_OVERWRITE: a->options.mode = HR_WRITE_OVERWRITE; return 0;
    case OUTPUT_FOLDER: a->folder = true; return 0;
    case 'w': return input_option(&a->write, 'o', value) ? 0 : EXIT_MISUSED;
    case OUTPUT_PARTITION: return input_columns(&a->write, value, &err) ? cli_failed(&err) : 0;
    case OUTPUT_ROWS:
        a->options.max_rows_per_file = strtoll(value, &end, 10);
        if (*end || a->options.max_rows_per_file < 1)
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

static hr_status rewrite_files(const rewrite *r, const input *in, output *out, int argc, char **argv, hr_error *err)
{
    hr_plan *p = NULL, *made = NULL;
    hr_status st = HR_OK;

    HR_GO(output_place(out, argv[argc - 1], err));
    HR_GO(input_plan(in, argc - 1, argv, &p, err));
    if (r->plan)
        HR_GO(r->plan(r->context, p, &made, err));
    HR_GO(output_write(out, made ? made : p, argv[argc - 1], err));
done:
    hr_plan_unref(made);
    hr_plan_unref(p);
    return st;
}

int rewrite_run(const command *cmd, const rewrite *r, int argc, char **argv)
{
    output out = { .options = { .struct_bytes = sizeof(hr_write_options), .mode = HR_WRITE_CREATE } };
    hr_error err = HR_ERROR_INIT;
    input in = { 0 };
    int status = 0, option;

    optind = 0;
    while (!status && (option = getopt_long(argc, argv, r->short_options, r->long_options, NULL)) != -1) {
        if (option == 'h') {
            status = cli_help(cmd);
            goto done;
        }
        status = read_option(cmd, r, &in, &out, option);
    }
    if (!status && argc - optind < 2)
        status = cli_misused(cmd, "expected IN... and OUT");
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
