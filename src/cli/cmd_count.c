/* cmd_count.c - headrace count: the number of rows in all files together.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>

static const struct option long_options[] = { FILTER_LONG, INPUT_LONG, { 0 } };

/* For formats without a number of rows in their metadata: reads rows without columns, which costs the least. */
static hr_status count_by_reading(hr_plan *p, int64_t *out, hr_error *err)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .any_order = true };
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_plan *rows = NULL;
    hr_status st = HR_OK;

    *out = 0;
    HR_GO(hr_plan_project(p, NULL, NULL, 0, &rows, err));
    HR_GO(hr_feed_open(rows, &options, &f, err));
    for (;;) {
        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        *out += hr_table_rows(t);
        hr_table_unref(t);
    }
done:
    hr_feed_close(f);
    hr_plan_unref(rows);
    return st;
}

static hr_status count_rows(hr_plan *p, int64_t *out, hr_error *err)
{
    HR_TRY(hr_plan_count(p, out, err));
    return *out >= 0 ? HR_OK : count_by_reading(p, out, err);
}

static int count_run(const command *cmd, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    input in = { 0 };
    hr_plan *p = NULL;
    int64_t n_rows = 0;
    int status = 0, option;

    optind = 0;
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
    if (status)
        goto done;
    if (input_plan(&in, argc, argv, &p, &err) || count_rows(p, &n_rows, &err))
        status = cli_failed(&err);
    else
        printf("%" PRId64 "\n", n_rows);
done:
    hr_plan_unref(p);
    input_clear(&in);
    return status;
}

const command cmd_count = {
    .name = "count",
    .args = "[OPTION]... FILE...",
    .doc = "Prints the number of rows in all files, from their metadata where possible",
    .more = FILTER_HELP INPUT_HELP,
    .run = count_run,
};
