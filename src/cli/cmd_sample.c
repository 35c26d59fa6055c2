/* cmd_sample.c - headrace sample: a random sample of the rows of files.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdlib.h>

static const struct option long_options[] = {
    { "fraction", required_argument, NULL, 'p' },
    { "rows", required_argument, NULL, 'n' },
    { "seed", required_argument, NULL, 's' },
    PRINT_LONG,
    OUTPUT_LONG,
    INPUT_LONG,
    { 0 },
};

typedef struct sample_args {
    uint64_t seed;
    double fraction; /* < 0: a number of rows */
    int64_t n_rows;  /* < 0: a fraction */
} sample_args;

static int sample_option(const command *cmd, void *context, int option, char *value)
{
    sample_args *a = context;
    char *end = NULL;

    switch (option) {
    case 's': return cli_seed(cmd, value, &a->seed);
    case 'p':
        a->fraction = strtod(value, &end);
        if (*end || end == value || !(a->fraction >= 0 && a->fraction <= 1))
            return cli_misused(cmd, "--fraction %s: expected a number from 0 to 1", value);
        return 0;
    case 'n':
        if (!cli_count(value, INT64_MAX, &a->n_rows))
            return cli_misused(cmd, "--rows %s: expected a number of rows", value);
        return 0;
    default: return -1;
    }
}

static int sample_check(const command *cmd, void *context)
{
    const sample_args *a = context;

    return (a->fraction < 0) != (a->n_rows < 0) ? 0 : cli_misused(cmd, "give --fraction or --rows, one of them");
}

/* --rows N takes the first N rows of a shuffle. */
static hr_status sample_plan(void *context, hr_plan *in, hr_plan **out, hr_error *err)
{
    const sample_args *a = context;
    hr_sample_options some = { .struct_bytes = sizeof some, .to = a->fraction, .seed = &a->seed };
    hr_shuffle_options how = { .struct_bytes = sizeof how, .seed = &a->seed };
    hr_plan *mixed = NULL;
    hr_status st;

    if (a->fraction >= 0)
        return hr_plan_sample(in, &some, out, err);
    *out = NULL;
    HR_TRY(hr_plan_random_shuffle(in, &how, &mixed, err));
    st = hr_plan_limit(mixed, a->n_rows, out, err);
    hr_plan_unref(mixed);
    return st;
}

static int sample_run(const command *cmd, int argc, char **argv)
{
    sample_args a = { .fraction = -1, .n_rows = -1 };
    const rewrite r = { .prints = true,
                        .short_options = "p:n:s:" OUTPUT_SHORT INPUT_SHORT,
                        .context = &a,
                        .option = sample_option,
                        .check = sample_check,
                        .plan = sample_plan };

    return rewrite_run(cmd, &r, argc, argv);
}

const command cmd_sample = {
    .name = "sample",
    .args = "[OPTION]... --fraction P|--rows N IN... [OUT]",
    .doc = "Writes or prints a random sample of the rows of files",
    .more = "  -p, --fraction P         keeps each row with this probability, in order\n"
            "  -n, --rows N             writes N rows, in a random order\n"
            "  -s, --seed N             the seed of the sample; default 0\n" PRINT_HELP OUTPUT_HELP INPUT_HELP,
    .options = long_options,
    .run = sample_run,
};
