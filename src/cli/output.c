/* output.c - what the commands share that write files: their options, and where OUT is. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* OUT is a file's name if it ends as files of the format do, and the files' folder otherwise. */
hr_status hr__output_place(hr_output *a, const char *path, hr_error *err)
{
    const hr_format *by_suffix = hr__format_guess(path, (hr_view){ NULL, 0 });
    const hr_format *format = a->to ? hr__format_by_name(a->to) : by_suffix;
    hr_stat info;

    if (strcmp(path, "-") == 0)
        return hr_error_set(err, HR_INVALID, "-: files are written under a name; headrace head --json prints rows");
    if (!format && a->to)
        return hr_error_set(err, HR_INVALID, "--to %s: no such format; headrace formats lists them", a->to);
    if (!format)
        return hr_error_set(err, HR_INVALID, "%s: no format has files of this suffix; name one by --to", path);
    a->to = format->name;
    a->folder = a->folder || !by_suffix || a->options.max_rows_per_file || a->write.n_columns ||
                path[strlen(path) - 1] == '/' || (hr__file_stat(path, &info) == 0 && info.is_dir);
    a->options.single_file = !a->folder;
    return HR_OK;
}

/* A signal that ends us waits until what was begun is gone: files without a name go by themselves, folders do not. */
static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
static volatile sig_atomic_t asked_to_end; /* the signal */

static void end_soon(int number) { asked_to_end = number; }

static bool is_to_end(void *context)
{
    (void)context;
    return asked_to_end != 0;
}

/* Those that somebody ignores for us (nohup) stay so. A second one of a kind ends us at once. */
static void wait_for_signals(void)
{
    struct sigaction soon = { .sa_handler = end_soon, .sa_flags = (int)SA_RESETHAND }, now;

    for (int i = 0; i < HR_LEN(signals); i++)
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            sigaction(signals[i], &soon, NULL);
}

hr_status hr__output_write(hr_output *a, hr_plan *in, const char *path, hr_error *err)
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
        for (int64_t i = 0; i < t->n_rows; i++) {
            int64_t n = 0, numbers[2];
            const uint8_t *name = hr__array_bytes(t->columns[0], i, &n);

            for (int k = 0; k < 2; k++)
                memcpy(&numbers[k], hr__array_values(t->columns[k + 1]) + 8 * i, 8);
            printf("%.*s\t%" PRId64 " rows\t%" PRId64 " bytes\n", (int)n, (const char *)name, numbers[0], numbers[1]);
        }
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

int hr__output_option(const hr_command *cmd, hr_output *a, int option, char *value)
{
    hr_error err = HR_ERROR_INIT;
    char *end = NULL;

    switch (option) {
    case HR_OUTPUT_TO: a->to = value; return 0;
    case HR_OUTPUT_OVERWRITE: a->options.mode = HR_WRITE_OVERWRITE; return 0;
    case HR_OUTPUT_FOLDER: a->folder = true; return 0;
    case 'w': return hr__input_option(&a->write, 'o', value) ? 0 : HR_EXIT_MISUSED;
    case HR_OUTPUT_PARTITION: return hr__input_columns(&a->write, value, &err) ? hr__cli_failed(&err) : 0;
    case HR_OUTPUT_ROWS:
        a->options.max_rows_per_file = strtoll(value, &end, 10);
        if (*end || a->options.max_rows_per_file < 1)
            return hr__cli_misused(cmd, "--max-rows-per-file %s: expected a number of rows", value);
        return 0;
    default: return -1;
    }
}

/* One option, of the command, of what is read, or of what is written. */
static int read_option(const hr_command *cmd, const hr_rewrite *r, hr_input *in, hr_output *out, int option)
{
    hr_error err = HR_ERROR_INIT;
    int status = r->option ? r->option(cmd, r->context, option, optarg) : -1;

    if (status >= 0)
        return status;
    if (option == 'c')
        return hr__input_columns(in, optarg, &err) ? hr__cli_failed(&err) : 0;
    status = hr__output_option(cmd, out, option, optarg);
    if (status >= 0)
        return status;
    return hr__input_option(in, option, optarg) ? 0 : HR_EXIT_MISUSED;
}

static hr_status rewrite_files(const hr_rewrite *r, const hr_input *in, hr_output *out, int argc, char **argv,
                               hr_error *err)
{
    hr_plan *p = NULL, *made = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__output_place(out, argv[argc - 1], err));
    HR_GO(hr__input_plan(in, argc - 1, argv, &p, err));
    if (r->plan)
        HR_GO(r->plan(r->context, p, &made, err));
    HR_GO(hr__output_write(out, made ? made : p, argv[argc - 1], err));
done:
    hr_plan_unref(made);
    hr_plan_unref(p);
    return st;
}

int hr__rewrite_run(const hr_command *cmd, const hr_rewrite *r, int argc, char **argv)
{
    hr_output out = { .options = { .struct_bytes = sizeof(hr_write_options), .mode = HR_WRITE_CREATE } };
    hr_error err = HR_ERROR_INIT;
    hr_input in = { 0 };
    int status = 0, option;

    optind = 0;
    while (!status && (option = getopt_long(argc, argv, r->short_options, r->long_options, NULL)) != -1) {
        if (option == 'h') {
            status = hr__cli_help(cmd);
            goto done;
        }
        status = read_option(cmd, r, &in, &out, option);
    }
    if (!status && argc - optind < 2)
        status = hr__cli_misused(cmd, "from which file, to which?");
    if (!status && r->check)
        status = r->check(cmd, r->context);
    if (!status && rewrite_files(r, &in, &out, argc, argv, &err))
        status = hr__cli_failed(&err);
done:
    hr__input_clear(&in);
    hr__input_clear(&out.write);
    return status;
}

int hr__cli_seed(const hr_command *cmd, const char *value, uint64_t *out)
{
    char *end = NULL;

    errno = 0;
    *out = strtoull(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno)
        return hr__cli_misused(cmd, "--seed %s: expected a number from 0 to 2^64 - 1", value);
    return 0;
}
