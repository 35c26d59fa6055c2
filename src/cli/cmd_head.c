/* cmd_head.c - headrace head: the first rows of files, as a table or as JSON lines.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_ROWS 10
#define DEFAULT_WIDTH 40
#define PRINT_ROWS 1000 /* rows that are text at the same time */

enum { OPTION_WIDTH = 256 };
static const struct option long_options[] = {
    { "rows", required_argument, NULL, 'n' },
    { "json", no_argument, NULL, 'j' },
    { "width", required_argument, NULL, OPTION_WIDTH },
    ROWS_LONG,
    INPUT_LONG,
    { 0 },
};

typedef struct head_args {
    int64_t n_rows;
    int width;
    bool json;
} head_args;

static hr_status print_json(const hr_table *t, hr_error *err)
{
    char *text = NULL;

    HR_TRY(hr_table_print_json(t, 0, hr_table_rows(t), &text, err));
    fputs(text, stdout);
    hr_string_free(text);
    return HR_OK;
}

/* The table's columns are as wide as its first PRINT_ROWS rows need; later cells may stick out. */
static hr_status print_grid(grid *g, const hr_table *t, bool first, hr_error *err)
{
    if (first && t)
        HR_TRY(grid_fit(g, t, err));
    if (first)
        HR_TRY(grid_head(g, err));
    return t ? grid_rows(g, t, err) : HR_OK;
}

static hr_status print_rows(hr_plan *p, const head_args *args, hr_error *err)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .batch_rows = PRINT_ROWS };
    struct ArrowSchema schema = { 0 };
    grid g = { 0 };
    hr_plan *few = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_plan_schema(p, &schema, err));
    HR_GO(grid_init(&g, &schema, args->width, err));
    HR_GO(hr_plan_limit(p, args->n_rows, &few, err));
    HR_GO(hr_feed_open(few, &options, &f, err));
    for (bool first = true;; first = false) {
        HR_GO(hr_feed_next(f, &t, err));
        if (!args->json)
            HR_GO(print_grid(&g, t, first, err));
        else if (t)
            HR_GO(print_json(t, err));
        if (ferror(stdout)) {
            st = hr_error_set(err, HR_IO, "standard output: %s", strerror(errno));
            goto done;
        }
        if (!t)
            break;
        hr_table_unref(t);
        t = NULL;
    }
done:
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(few);
    grid_clear(&g);
    if (schema.release)
        schema.release(&schema);
    return st;
}

/* A whole number from 0; false for anything else. */
static bool parse_count(const char *text, int64_t max, int64_t *out)
{
    char *end = NULL;
    long long n;

    errno = 0;
    n = strtoll(text, &end, 10);
    *out = n;
    return *text >= '0' && *text <= '9' && !*end && !errno && n <= max;
}

static int head_run(const command *cmd, int argc, char **argv)
{
    head_args args = { .n_rows = DEFAULT_ROWS, .width = DEFAULT_WIDTH };
    hr_error err = HR_ERROR_INIT;
    input in = { 0 };
    hr_plan *p = NULL;
    int64_t n = 0;
    int status = 0, option;

    optind = 0;
    while (!status && (option = getopt_long(argc, argv, "n:j" ROWS_SHORT INPUT_SHORT, long_options, NULL)) != -1) {
        switch (option) {
        case 'h': status = cli_help(cmd); goto done;
        case 'n':
            if (!parse_count(optarg, INT64_MAX, &args.n_rows))
                status = cli_misused(cmd, "-n %s: expected a number of rows", optarg);
            break;
        case OPTION_WIDTH:
            if (!parse_count(optarg, 1 << 20, &n))
                status = cli_misused(cmd, "--width %s: expected a number of characters up to %d", optarg, 1 << 20);
            args.width = (int)n;
            break;
        case 'j': args.json = true; break;
        default:
            if (!input_option(&in, option, optarg))
                status = EXIT_MISUSED;
        }
    }
    if (!status && optind == argc)
        status = cli_misused(cmd, "no FILE is given");
    if (!status && (input_plan(&in, argc, argv, &p, &err) || print_rows(p, &args, &err)))
        status = cli_failed(&err);
done:
    hr_plan_unref(p);
    input_clear(&in);
    return status;
}

const command cmd_head = {
    .name = "head",
    .args = "[OPTION]... FILE...",
    .doc = "Prints the first rows, as a table or as JSON lines",
    .more = "  -n, --rows N             the number of rows; default 10\n"
            "  -j, --json               one JSON object a line\n"
            "      --width N            cuts cells of the table to N characters; default 40; 0: no cut\n" ROWS_HELP
                INPUT_HELP,
    .run = head_run,
};
