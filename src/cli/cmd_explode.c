/* cmd_explode.c - headrace explode: a row for each element of a column of lists.
 *
 * Tests: test_cli_rows.py. */
#include "cli/cli.h"

enum { OPTION_LIST = 512 };
static const struct option long_options[] = {
    { "list", required_argument, NULL, OPTION_LIST }, PRINT_LONG, OUTPUT_LONG, INPUT_LONG, { 0 },
};

static int explode_option(const command *cmd, void *context, int option, char *value)
{
    (void)cmd;
    if (option != OPTION_LIST)
        return -1;
    *(const char **)context = value;
    return 0;
}

static int explode_check(const command *cmd, void *context)
{
    return *(const char **)context ? 0 : cli_misused(cmd, "no --list is given");
}

static hr_status explode_plan(void *context, hr_plan *in, hr_plan **out, hr_error *err)
{
    return hr_plan_explode(in, *(const char **)context, out, err);
}

static int explode_run(const command *cmd, int argc, char **argv)
{
    const char *column = NULL;
    const rewrite r = { .prints = true,
                        .short_options = OUTPUT_SHORT INPUT_SHORT,
                        .context = &column,
                        .option = explode_option,
                        .check = explode_check,
                        .plan = explode_plan };

    return rewrite_run(cmd, &r, argc, argv);
}

const command cmd_explode = {
    .name = "explode",
    .args = "[OPTION]... --list A IN... [OUT]",
    .doc = "Writes or prints a row for each element of a column of lists",
    .more = "      --list A             the column of lists; a row for each element has the element in its "
            "place\n" PRINT_HELP OUTPUT_HELP INPUT_HELP,
    .options = long_options,
    .run = explode_run,
};
