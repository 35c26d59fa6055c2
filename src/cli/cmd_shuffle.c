/* cmd_shuffle.c - headrace shuffle: files of any format and size, their rows in a random order.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

static const struct option long_options[] = {
    { "seed", required_argument, NULL, 's' }, PRINT_LONG, OUTPUT_LONG, INPUT_LONG, { 0 },
};

static int shuffle_option(const command *cmd, void *context, int option, char *value)
{
    return option == 's' ? cli_seed(cmd, value, context) : -1;
}

static hr_status shuffle_plan(void *context, hr_plan *in, hr_plan **out, hr_error *err)
{
    hr_shuffle_options how = { .struct_bytes = sizeof how, .seed = context };

    return hr_plan_random_shuffle(in, &how, out, err);
}

static int shuffle_run(const command *cmd, int argc, char **argv)
{
    uint64_t seed = 0;
    const rewrite r = { .prints = true,
                        .short_options = "s:" OUTPUT_SHORT INPUT_SHORT,
                        .context = &seed,
                        .option = shuffle_option,
                        .plan = shuffle_plan };

    return rewrite_run(cmd, &r, argc, argv);
}

const command cmd_shuffle = {
    .name = "shuffle",
    .args = "[OPTION]... IN... [OUT]",
    .doc = "Writes or prints the rows of files of any format and size in a random order",
    .more = "  -s, --seed N             the seed of the order; default 0\n" PRINT_HELP OUTPUT_HELP INPUT_HELP,
    .options = long_options,
    .run = shuffle_run,
};
