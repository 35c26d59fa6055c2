/* cmd_head.c - headrace head: the first rows of files, as a table or as JSON lines. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_ROWS 10
#define DEFAULT_WIDTH 40
#define PIECE_ROWS 1000 /* so much is text at a time, however long the head */

enum { OPTION_WIDTH = 256 };
static const struct option long_options[] = {
    { "rows", required_argument, NULL, 'n' },
    { "columns", required_argument, NULL, 'c' },
    { "json", no_argument, NULL, 'j' },
    { "width", required_argument, NULL, OPTION_WIDTH },
    HR_INPUT_LONG,
    { 0 },
};

typedef struct head_args {
    int64_t n_rows;
    int width;
    bool json;
} head_args;

static hr_status write_out(hr_text *text, hr_error *err)
{
    hr_status st = HR_OK;

    if (text->failed)
        HR_FAIL(HR_NO_MEMORY, "no memory for the text of the rows");
    if (text->n && fwrite(text->data, 1, (size_t)text->n, stdout) != (size_t)text->n)
        HR_FAIL(HR_IO, "standard output: %s", strerror(errno));
done:
    text->n = 0;
    return st;
}

/* The table's columns are as wide as its first PIECE_ROWS rows need; later cells may stick out. */
static hr_status print_rows(hr_plan *p, const head_args *args, hr_error *err)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .batch_rows = PIECE_ROWS };
    hr_text text = { 0 };
    hr_grid grid = { 0 };
    hr_schema *schema = NULL;
    hr_plan *few = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__plan_schema(p, &schema, err));
    HR_GO(hr__grid_init(&grid, schema, args->width, err));
    HR_GO(hr_plan_limit(p, args->n_rows, &few, err));
    HR_GO(hr_feed_open(few, &options, &f, err));
    for (bool first = true;; first = false) {
        HR_GO(hr_feed_next(f, &t, err));
        if (first && !args->json) {
            if (t)
                hr__grid_fit(&grid, t);
            hr__grid_head(&grid, schema, &text);
        }
        if (t && args->json)
            hr__show_json(t, &text);
        else if (t)
            hr__grid_rows(&grid, t, &text);
        HR_GO(write_out(&text, err));
        if (!t)
            break;
        hr_table_unref(t);
        t = NULL;
    }
done:
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(few);
    hr__grid_clear(&grid);
    hr__schema_unref(schema);
    hr__text_clear(&text);
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

static int head_run(const hr_command *cmd, int argc, char **argv)
{
    head_args args = { .n_rows = DEFAULT_ROWS, .width = DEFAULT_WIDTH };
    hr_error err = HR_ERROR_INIT;
    hr_input in = { 0 };
    hr_plan *p = NULL;
    int64_t n = 0;
    int status = 0, option;

    optind = 0;
    while (!status && (option = getopt_long(argc, argv, "n:c:j" HR_INPUT_SHORT, long_options, NULL)) != -1) {
        switch (option) {
        case 'h': status = hr__cli_help(cmd); goto done;
        case 'n':
            if (!parse_count(optarg, INT64_MAX, &args.n_rows))
                status = hr__cli_misused(cmd, "-n %s: expected a number of rows", optarg);
            break;
        case OPTION_WIDTH:
            if (!parse_count(optarg, 1 << 20, &n))
                status = hr__cli_misused(cmd, "--width %s: expected a number of characters up to %d", optarg, 1 << 20);
            args.width = (int)n;
            break;
        case 'c':
            if (hr__input_columns(&in, optarg, &err))
                status = hr__cli_failed(&err);
            break;
        case 'j': args.json = true; break;
        default:
            if (!hr__input_option(&in, option, optarg))
                status = HR_EXIT_MISUSED;
        }
    }
    if (!status && optind == argc)
        status = hr__cli_misused(cmd, "which file?");
    if (!status && (hr__input_plan(&in, argc, argv, &p, &err) || print_rows(p, &args, &err)))
        status = hr__cli_failed(&err);
done:
    hr_plan_unref(p);
    hr__input_clear(&in);
    return status;
}

const hr_command hr__cmd_head = {
    .name = "head",
    .args = "[OPTION]... FILE...",
    .doc = "The first rows, as a table or as JSON lines",
    .more = "  -n, --rows N             how many; default 10\n"
            "  -c, --columns A,B        only these columns, in this order; may be repeated\n"
            "  -j, --json               one JSON object a line\n"
            "      --width N            cut cells of the table to N characters; default 40, 0: never\n" HR_INPUT_HELP,
    .run = head_run,
};
