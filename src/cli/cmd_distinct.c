/* cmd_distinct.c - headrace distinct: one of the rows that are equal.
 *
 * Tests: test_cli_rows.py. */
#include "cli/cli.h"

enum { OPTION_KEEP = 512 };
static const struct option long_options[] = {
    { "key", required_argument, NULL, 'k' },
    { "keep", required_argument, NULL, OPTION_KEEP },
    PRINT_LONG,
    OUTPUT_LONG,
    INPUT_LONG,
    { 0 },
};

typedef struct distinct_args {
    input keys;
    hr_keep keep;
} distinct_args;

static int keep_option(const command *cmd, distinct_args *a, const char *value)
{
    static const char *const names[] = { "first", "last", "none" };
    static const hr_keep kinds[] = { HR_KEEP_FIRST, HR_KEEP_LAST, HR_KEEP_NONE };

    for (int i = 0; i < LEN(names); i++)
        if (!strcmp(value, names[i])) {
            a->keep = kinds[i];
            return 0;
        }
    return cli_misused(cmd, "--keep %s: expected first, last or none", value);
}

static int distinct_option(const command *cmd, void *context, int option, char *value)
{
    distinct_args *a = context;
    hr_error err = HR_ERROR_INIT;

    switch (option) {
    case 'k': return input_columns(&a->keys, value, &err) ? cli_failed(&err) : 0;
    case OPTION_KEEP: return keep_option(cmd, a, value);
    default: return -1;
    }
}

static hr_status distinct_plan(void *context, hr_plan *in, hr_plan **out, hr_error *err)
{
    const distinct_args *a = context;

    return hr_plan_distinct(in, (const char *const *)a->keys.columns, (int)a->keys.n_columns, a->keep, out, err);
}

static int distinct_run(const command *cmd, int argc, char **argv)
{
    distinct_args a = { .keep = HR_KEEP_FIRST };
    const rewrite r = { .prints = true,
                        .short_options = "k:" OUTPUT_SHORT INPUT_SHORT,
                        .context = &a,
                        .option = distinct_option,
                        .plan = distinct_plan };
    int status = rewrite_run(cmd, &r, argc, argv);

    input_clear(&a.keys);
    return status;
}

const command cmd_distinct = {
    .name = "distinct",
    .args = "[OPTION]... IN... [OUT]",
    .doc = "Writes or prints one of the rows that are equal, in order",
    .more = "  -k, --key A,B            the columns that decide; default: all\n"
            "      --keep WHICH         which of equal rows stays: first, last or none; default first\n" PRINT_HELP
                OUTPUT_HELP INPUT_HELP,
    .options = long_options,
    .run = distinct_run,
};
