/* cmd_stat.c - headrace stat: the metadata of files; it reads no rows.
 *
 * A line for the file, what its format says of it, then a line for each fragment and what the format says of that. At
 * the end a line for each finding on the layout of all files, after "advice: "; with --json no object has it. Zarr
 * stores, which the engine does not read, come first: stat_zarr.c.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

static const struct option long_options[] = { INPUT_LONG, { 0 } };

static hr_status print_advice(hr_plan *p, hr_error *err)
{
    char *text = NULL;

    HR_TRY(hr_plan_file_advice(p, &text, err));
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        fputs("advice: ", stdout);
        pipes_print(stdout, line, true);
        putchar('\n');
    }
    hr_string_free(text);
    return HR_OK;
}

static hr_status stat_print(void *context, const input *in, hr_plan *p, hr_error *err)
{
    int n_files;

    (void)context;
    HR_TRY(hr_plan_files(p, &n_files, err));
    for (int i = 0; i < n_files; i++) {
        char *text = NULL;

        HR_TRY((in->json ? hr_plan_describe_file_json : hr_plan_describe_file)(p, i, &text, err));
        pipes_print(stdout, text, false);
        hr_string_free(text);
    }
    return in->json ? HR_OK : print_advice(p, err);
}

static hr_status stat_own(const input *in, const char *path, bool *done, hr_error *err)
{
    *done = false;
    return in->format ? HR_OK : stat_zarr(path, in, done, err);
}

static int stat_run(const command *cmd, int argc, char **argv)
{
    const inspect how = { .short_options = INPUT_SHORT, .print = stat_print, .own = stat_own };

    return inspect_run(cmd, &how, argc, argv);
}

const command cmd_stat = {
    .name = "stat",
    .args = "[OPTION]... FILE...",
    .doc = "Prints the metadata of files: fragments, encodings, sizes, least and greatest values, and advice",
    .more = INPUT_HELP,
    .options = long_options,
    .run = stat_run,
};
