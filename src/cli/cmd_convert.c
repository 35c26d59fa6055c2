/* cmd_convert.c - headrace convert: files of any format that can be read, as files of any that can be written. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPTION_TO = 256, OPTION_PARTITION, OPTION_ROWS, OPTION_OVERWRITE, OPTION_FOLDER };
static const struct option long_options[] = {
    { "to", required_argument, NULL, OPTION_TO },
    { "write-option", required_argument, NULL, 'w' },
    { "columns", required_argument, NULL, 'c' },
    { "partition", required_argument, NULL, OPTION_PARTITION },
    { "max-rows-per-file", required_argument, NULL, OPTION_ROWS },
    { "overwrite", no_argument, NULL, OPTION_OVERWRITE },
    { "folder", no_argument, NULL, OPTION_FOLDER },
    HR_INPUT_LONG,
    { 0 },
};

typedef struct convert_args {
    const char *to;
    hr_input write; /* its settings are those of the format that is written, its columns name folders */
    hr_write_options options;
    bool folder;
} convert_args;

/* OUT is a file's name if it ends as files of the format do, and the files' folder otherwise. */
static hr_status place(convert_args *a, const char *path, hr_error *err)
{
    const hr_format *by_suffix = hr__format_guess(path, (hr_view){ NULL, 0 });
    const hr_format *format = a->to ? hr__format_by_name(a->to) : by_suffix;
    hr_stat info;

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

static hr_status write_all(hr_plan *in, convert_args *a, const char *path, hr_error *err)
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
    HR_GO(hr_feed_open(p, &how, &f, err));
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
    return st;
}

static int read_option(const hr_command *cmd, convert_args *a, hr_input *in, int option)
{
    hr_error err = HR_ERROR_INIT;
    char *end = NULL;

    switch (option) {
    case OPTION_TO: a->to = optarg; return 0;
    case OPTION_OVERWRITE: a->options.mode = HR_WRITE_OVERWRITE; return 0;
    case OPTION_FOLDER: a->folder = true; return 0;
    case 'w': return hr__input_option(&a->write, 'o', optarg) ? 0 : HR_EXIT_MISUSED;
    case 'c': return hr__input_columns(in, optarg, &err) ? hr__cli_failed(&err) : 0;
    case OPTION_PARTITION: return hr__input_columns(&a->write, optarg, &err) ? hr__cli_failed(&err) : 0;
    case OPTION_ROWS:
        a->options.max_rows_per_file = strtoll(optarg, &end, 10);
        if (*end || a->options.max_rows_per_file < 1)
            return hr__cli_misused(cmd, "--max-rows-per-file %s: expected a number of rows", optarg);
        return 0;
    default: return hr__input_option(in, option, optarg) ? 0 : HR_EXIT_MISUSED;
    }
}

static int convert_run(const hr_command *cmd, int argc, char **argv)
{
    convert_args a = { .options = { .struct_bytes = sizeof(hr_write_options), .mode = HR_WRITE_CREATE } };
    hr_error err = HR_ERROR_INIT;
    hr_input in = { 0 };
    hr_plan *p = NULL;
    int status = 0, option;

    optind = 0;
    while (!status && (option = getopt_long(argc, argv, "c:w:" HR_INPUT_SHORT, long_options, NULL)) != -1) {
        if (option == 'h') {
            status = hr__cli_help(cmd);
            goto done;
        }
        status = read_option(cmd, &a, &in, option);
    }
    if (!status && argc - optind < 2)
        status = hr__cli_misused(cmd, "from which file, to which?");
    if (!status && (place(&a, argv[argc - 1], &err) || hr__input_plan(&in, argc - 1, argv, &p, &err) ||
                    write_all(p, &a, argv[argc - 1], &err)))
        status = hr__cli_failed(&err);
done:
    hr_plan_unref(p);
    hr__input_clear(&in);
    hr__input_clear(&a.write);
    return status;
}

const hr_command hr__cmd_convert = {
    .name = "convert",
    .args = "[OPTION]... IN... OUT",
    .doc = "Files of any format as a file, or a folder of files, of another",
    .more = "      --to FORMAT          what to write; else by OUT's suffix\n"
            "  -w, --write-option NAME=VALUE  an option of what is written; may be repeated\n"
            "  -c, --columns A,B        only these columns, in this order; may be repeated\n"
            "      --partition A,B      a folder for each value of these columns\n"
            "      --max-rows-per-file N  files of at most so many rows, in the folder OUT\n"
            "      --folder             OUT is a folder, whatever its suffix\n"
            "      --overwrite          what is there is replaced when all is written; else that is an "
            "error\n" HR_INPUT_HELP,
    .run = convert_run,
};
