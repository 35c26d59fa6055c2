/* cmd_convert.c - headrace convert: files of any format that can be read, as files of any that can be written.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

static const struct option long_options[] = { OUTPUT_LONG, INPUT_LONG, { 0 } };

static int convert_run(const command *cmd, int argc, char **argv)
{
    const rewrite r = { .short_options = OUTPUT_SHORT INPUT_SHORT };

    return rewrite_run(cmd, &r, argc, argv);
}

const command cmd_convert = {
    .name = "convert",
    .args = "[OPTION]... IN... OUT",
    .doc = "Writes the rows of files as a file, or a folder of files, of another format",
    .more = OUTPUT_HELP INPUT_HELP,
    .options = long_options,
    .run = convert_run,
};
