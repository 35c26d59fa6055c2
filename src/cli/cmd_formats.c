/* cmd_formats.c - headrace formats: what can be read, and each format's options, from the tables that parse them.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdio.h>

static const struct option long_options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };

/* Format number i; false: there are fewer. */
static bool format_at(int i, hr_format_info *out)
{
    *out = (hr_format_info){ .struct_bytes = sizeof *out };
    return hr_format_at(i, out, NULL) == HR_OK;
}

static int wider(int width, const char *text) { return (int)strlen(text) > width ? (int)strlen(text) : width; }

static void print_all(void)
{
    int name_width = 0, suffix_width = 0;
    hr_format_info f;

    for (int i = 0; format_at(i, &f); i++) {
        name_width = wider(name_width, f.name);
        suffix_width = wider(suffix_width, f.suffixes);
    }
    for (int i = 0; format_at(i, &f); i++)
        printf("%-*s  %-*s  %s\n", name_width, f.name, suffix_width, f.suffixes, f.doc);
}

static hr_status no_format(const char *name, hr_error *err)
{
    char names[500] = "";
    size_t n = 0;
    hr_format_info f;

    for (int i = 0; format_at(i, &f) && n < sizeof names; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, " %s", f.name);
    return hr_error_set(err, HR_NOT_FOUND, "no format '%s'; the formats are:%s", name, names);
}

static hr_status print_options(const char *title, const char *format, hr_direction direction, hr_error *err)
{
    char *text = NULL;

    HR_TRY(hr_format_options(format, direction, &text, err));
    printf("%s:%s%s", title, *text ? "\n" : " none\n", text);
    hr_string_free(text);
    return HR_OK;
}

static hr_status print_one(const char *name, hr_error *err)
{
    hr_format_info f;

    for (int i = 0;; i++) {
        if (!format_at(i, &f))
            return no_format(name, err);
        if (!strcmp(f.name, name))
            break;
    }
    printf("%s: %s\nsuffixes: %s\n", f.name, f.doc, f.suffixes);
    HR_TRY(print_options("options", f.name, HR_READ, err));
    return f.can_write ? print_options("write options", f.name, HR_WRITE, err) : HR_OK;
}

static int formats_run(const command *cmd, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    int option;

    optind = 0;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
        return option == 'h' ? cli_help(cmd) : EXIT_MISUSED;
    if (argc - optind > 1)
        return cli_misused(cmd, "'%s': expected one NAME at most", argv[optind + 1]);
    if (optind == argc)
        print_all();
    else if (print_one(argv[optind], &err))
        return cli_failed(&err);
    return 0;
}

const command cmd_formats = {
    .name = "formats",
    .args = "[NAME]",
    .doc = "Lists the formats; with a name, lists that format's options and their defaults",
    .more = "  -h, --help               this text\n",
    .run = formats_run,
};
