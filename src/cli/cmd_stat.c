/* cmd_stat.c - headrace stat: the metadata of files; it reads no rows.
 *
 * A line for the file, what its format says of it, then a line for each fragment and what the format says of that.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdio.h>

static const struct option long_options[] = { INPUT_LONG, { 0 } };

/* A terminal obeys bytes below a blank, and names and values are not trusted. */
static void print_clean(const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        putchar((c < ' ' && c != '\n') || c == 0x7f ? '?' : c);
    }
}

static hr_status print_files(const input *in, int argc, char **argv, hr_error *err)
{
    hr_plan *p = NULL;
    hr_status st = HR_OK;
    int n_files;

    HR_GO(input_plan(in, argc, argv, &p, err));
    HR_GO(hr_plan_files(p, &n_files, err));
    for (int i = 0; i < n_files; i++) {
        char *text = NULL;

        HR_GO(hr_plan_describe_file(p, i, &text, err));
        print_clean(text);
        hr_string_free(text);
    }
done:
    hr_plan_unref(p);
    return st;
}

static int stat_run(const command *cmd, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    input in = { 0 };
    int status = 0, option;

    optind = 0; /* GNU: begin anew */
    while (!status && (option = getopt_long(argc, argv, INPUT_SHORT, long_options, NULL)) != -1) {
        if (option == 'h') {
            status = cli_help(cmd);
            goto done;
        }
        if (!input_option(&in, option, optarg))
            status = EXIT_MISUSED;
    }
    if (!status && optind == argc)
        status = cli_misused(cmd, "no FILE is given");
    if (!status && print_files(&in, argc, argv, &err))
        status = cli_failed(&err);
done:
    input_clear(&in);
    return status;
}

const command cmd_stat = {
    .name = "stat",
    .args = "[OPTION]... FILE...",
    .doc = "Prints the metadata of files: fragments, encodings, sizes, least and greatest values",
    .more = INPUT_HELP,
    .run = stat_run,
};
