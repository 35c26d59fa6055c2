/* cmd_count.c - headrace count: the number of rows in all files together.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <inttypes.h>

static const struct option long_options[] = { FILTER_LONG, INPUT_LONG, { 0 } };

/* For formats without a number of rows in their metadata: reads rows without columns, which costs the least. */
static hr_status count_by_reading(const input *in, hr_plan *p, int64_t *out, hr_error *err)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .any_order = true };
    progress bar = { 0 };
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_plan *rows = NULL;
    hr_status st = HR_OK;

    *out = 0;
    HR_GO(hr_plan_project(p, NULL, NULL, 0, &rows, err));
    HR_GO(hr_feed_open(rows, &options, &f, err));
    if (!in->quiet)
        progress_watch(&bar, f);
    for (;;) {
        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        *out += hr_table_rows(t);
        hr_table_unref(t);
    }
done:
    progress_end(&bar);
    hr_feed_close(f);
    hr_plan_unref(rows);
    return st;
}

static hr_status count_print(void *context, const input *in, hr_plan *p, hr_error *err)
{
    int64_t n_rows = 0;

    (void)context;
    HR_TRY(hr_plan_count(p, &n_rows, err));
    if (n_rows < 0)
        HR_TRY(count_by_reading(in, p, &n_rows, err));
    printf(in->json ? "{\"rows\": %" PRId64 "}\n" : "%" PRId64 "\n", n_rows);
    return HR_OK;
}

static int count_run(const command *cmd, int argc, char **argv)
{
    const inspect how = { .short_options = INPUT_SHORT, .print = count_print };

    return inspect_run(cmd, &how, argc, argv);
}

const command cmd_count = {
    .name = "count",
    .args = "[OPTION]... FILE...",
    .doc = "Prints the number of rows in all files, from their metadata where possible",
    .more = FILTER_HELP INPUT_HELP,
    .options = long_options,
    .run = count_run,
};
