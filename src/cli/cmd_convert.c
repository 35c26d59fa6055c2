/* cmd_convert.c - headrace convert: files of any format that can be read, as files of any that can be written. */
#include "cli/cli.h"

static const struct option long_options[] = { HR_OUTPUT_LONG, HR_INPUT_LONG, { 0 } };

static int convert_run(const hr_command *cmd, int argc, char **argv)
{
    const hr_rewrite r = { .short_options = HR_OUTPUT_SHORT HR_INPUT_SHORT, .long_options = long_options };

    return hr__rewrite_run(cmd, &r, argc, argv);
}

const hr_command hr__cmd_convert = {
    .name = "convert",
    .args = "[OPTION]... IN... OUT",
    .doc = "Files of any format as a file, or a folder of files, of another",
    .more = HR_OUTPUT_HELP HR_INPUT_HELP,
    .run = convert_run,
};
