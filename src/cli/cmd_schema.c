/* cmd_schema.c - headrace schema: the columns of files, one "name: type" a line.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdio.h>

static const struct option long_options[] = { INPUT_LONG, { 0 } };

static hr_status print_schema(hr_plan *p, hr_error *err)
{
    char *text = NULL;

    HR_TRY(hr_plan_print_schema(p, &text, err));
    fputs(text, stdout);
    hr_string_free(text);
    return HR_OK;
}

static int schema_run(const command *cmd, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    input in = { 0 };
    hr_plan *p = NULL;
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
    if (!status && (input_plan(&in, argc, argv, &p, &err) || print_schema(p, &err)))
        status = cli_failed(&err);
done:
    hr_plan_unref(p);
    input_clear(&in);
    return status;
}

const command cmd_schema = {
    .name = "schema",
    .args = "[OPTION]... FILE...",
    .doc = "Prints the names and types of the first file's columns",
    .more = INPUT_HELP,
    .run = schema_run,
};
