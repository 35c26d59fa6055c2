/* cmd_schema.c - headrace schema: the columns of files, one "name: type" a line. */
#include "cli/cli.h"

#include <stdio.h>

static const struct option long_options[] = { HR_INPUT_LONG, { 0 } };

static hr_status print_schema(hr_plan *p, hr_error *err)
{
    hr_text text = { 0 };
    hr_schema *s = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__plan_schema(p, &s, err));
    hr__schema_print(s, &text);
    if (text.failed)
        HR_FAIL(HR_NO_MEMORY, "no memory for the text of %d columns", s->n);
    if (text.n)
        fwrite(text.data, 1, (size_t)text.n, stdout);
    if (text.n && text.data[text.n - 1] != '\n')
        putchar('\n');
done:
    hr__text_clear(&text);
    hr__schema_unref(s);
    return st;
}

static int schema_run(const hr_command *cmd, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    hr_input in = { 0 };
    hr_plan *p = NULL;
    int status = 0, option;

    optind = 0; /* GNU: begin anew */
    while (!status && (option = getopt_long(argc, argv, HR_INPUT_SHORT, long_options, NULL)) != -1) {
        if (option == 'h') {
            status = hr__cli_help(cmd);
            goto done;
        }
        if (!hr__input_option(&in, option, optarg))
            status = HR_EXIT_MISUSED;
    }
    if (!status && optind == argc)
        status = hr__cli_misused(cmd, "which file?");
    if (!status && (hr__input_plan(&in, argc, argv, &p, &err) || print_schema(p, &err)))
        status = hr__cli_failed(&err);
done:
    hr_plan_unref(p);
    hr__input_clear(&in);
    return status;
}

const hr_command hr__cmd_schema = {
    .name = "schema",
    .args = "[OPTION]... FILE...",
    .doc = "Names and types of the columns, those of the first file",
    .more = HR_INPUT_HELP,
    .run = schema_run,
};
