/* cmd_head.c - headrace head: the first rows of files, as a table or as JSON lines.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#define DEFAULT_ROWS 10

enum { OPTION_WIDTH = 256 };
static const struct option long_options[] = {
    { "rows", required_argument, NULL, 'n' },
    { "width", required_argument, NULL, OPTION_WIDTH },
    ROWS_LONG,
    INPUT_LONG,
    { 0 },
};

static int head_option(const command *cmd, void *context, int option, char *value)
{
    show *how = context;
    int64_t n = 0;

    switch (option) {
    case 'n':
        if (!cli_count(value, INT64_MAX, &how->n_rows))
            return cli_misused(cmd, "-n %s: expected a number of rows", value);
        return 0;
    case OPTION_WIDTH:
        if (!cli_count(value, 1 << 20, &n))
            return cli_misused(cmd, "--width %s: expected a number of characters up to %d", value, 1 << 20);
        how->width = (int)n;
        return 0;
    default: return -1;
    }
}

static hr_status head_print(void *context, const input *in, hr_plan *p, hr_error *err)
{
    show *how = context;

    how->json = in->json;
    how->quiet = in->quiet;
    return show_rows(p, how, err);
}

/* Whether a part of a pipe gives the rows. */
static bool head_suffices(void *context, hr_plan *p)
{
    const show *how = context;
    hr_error err = HR_ERROR_INIT;
    hr_feed_options options = { .struct_bytes = sizeof options };
    hr_plan *few = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    int64_t n = 0;

    if (!hr_plan_limit(p, how->n_rows, &few, &err) && !hr_feed_open(few, &options, &f, &err))
        while (!hr_feed_next(f, &t, &err) && t) {
            n += hr_table_rows(t);
            hr_table_unref(t);
            t = NULL;
        }
    hr_error_clear(&err);
    hr_feed_close(f);
    hr_plan_unref(few);
    return n >= how->n_rows;
}

static int head_run(const command *cmd, int argc, char **argv)
{
    show how = { .n_rows = DEFAULT_ROWS, .width = SHOW_WIDTH };
    const inspect i = { .short_options = "n:" ROWS_SHORT INPUT_SHORT,
                        .context = &how,
                        .option = head_option,
                        .print = head_print,
                        .suffices = head_suffices };

    return inspect_run(cmd, &i, argc, argv);
}

const command cmd_head = {
    .name = "head",
    .args = "[OPTION]... FILE...",
    .doc = "Prints the first rows, as a table or as JSON lines",
    .more = "  -n, --rows N             the number of rows; default 10\n"
            "      --width N            cuts cells of the table to N characters; default 40; 0: no cut\n" ROWS_HELP
                INPUT_HELP,
    .options = long_options,
    .run = head_run,
};
