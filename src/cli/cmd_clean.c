/* cmd_clean.c - headrace clean: what killed writes have left in a folder.
 *
 * Tests: test_s3_write.py. */
#include "cli/cli.h"

#include <stdio.h>

static const struct option long_options[] = {
    { "job", required_argument, NULL, 'J' }, { "all", no_argument, NULL, 'a' },  STORAGE_LONG,
    { "json", no_argument, NULL, 'j' },      { "help", no_argument, NULL, 'h' }, { 0 }
};

/* "WHAT\tPATH" or "WHAT\tPATH\tJOB", without the line's end. */
static void print_json(const char *line, size_t n)
{
    static const char *const names[] = { "{\"state\": ", ", \"path\": ", ", \"job\": " };
    const char *end = line + n;

    for (int i = 0; i < LEN(names) && line <= end; i++) {
        const char *tab = memchr(line, '\t', (size_t)(end - line));

        tab = tab ? tab : end;
        fputs(names[i], stdout);
        json_text(line, tab - line);
        line = tab + 1;
    }
    puts("}");
}

/* The same for people: names get no control characters. */
static void print_line(char *line, size_t n)
{
    line[n] = 0;
    for (char *tab; (tab = strchr(line, '\t')); line = tab + 1) {
        *tab = 0;
        pipes_print(stdout, line, true);
        putchar('\t');
    }
    pipes_print(stdout, line, true);
    putchar('\n');
}

static void print_lines(char *text, bool json)
{
    for (size_t n; *text; text += n + 1) {
        n = strcspn(text, "\n");
        if (json)
            print_json(text, n);
        else
            print_line(text, n);
    }
}

static int clean(const input *in, const char *path, const char *job)
{
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;

    if (hr_clean(path, job, in->storage, (int)in->n_storage, &text, &err))
        return cli_failed(&err);
    print_lines(text, in->json);
    hr_string_free(text);
    return 0;
}

static int clean_option(const command *cmd, input *in, const char **job, int option)
{
    if (option == 'J' && !*optarg)
        return cli_misused(cmd, "--job: expected the beginning of files' names");
    if (option == 'J' || option == 'a') {
        *job = option == 'J' ? optarg : "";
        return 0;
    }
    return input_option(in, option, optarg) ? 0 : EXIT_MISUSED;
}

static int clean_run(const command *cmd, int argc, char **argv)
{
    const char *job = NULL;
    int option, status = 0;
    input in = { 0 };

    optind = 0;
    while (!status && (option = cli_option(cmd, argc, argv, "J:ajh")) != -1) {
        if (option == 'h') {
            status = cli_help(cmd);
            goto done;
        }
        status = clean_option(cmd, &in, &job, option);
    }
    if (!status && optind == argc)
        status = cli_misused(cmd, "expected FOLDER...");
    for (int i = optind; i < argc && !status; i++)
        status = clean(&in, argv[i], job);
done:
    input_clear(&in);
    return status;
}

const command cmd_clean = {
    .name = "clean",
    .args = "[OPTION]... FOLDER...",
    .doc = "Completes or removes what killed writes have left in folders, local ones or of a store",
    .more =
        "  -J, --job NAME           aborts the uploads of files whose names begin with NAME\n"
        "  -a, --all                aborts all unfinished uploads, also those of writes that are running\n" STORAGE_HELP
        "  -j, --json               prints JSON lines\n",
    .options = long_options,
    .run = clean_run,
};
