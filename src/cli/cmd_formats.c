/* cmd_formats.c - headrace formats: what can be read, and each format's options, from the tables that parse them.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdio.h>

static const struct option long_options[] = { { "json", no_argument, NULL, 'j' },
                                              { "help", no_argument, NULL, 'h' },
                                              { 0 } };

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

static void print_json(const hr_format_info *f)
{
    fputs("{\"name\": ", stdout);
    json_text(f->name, (int64_t)strlen(f->name));
    fputs(", \"suffixes\": ", stdout);
    json_text(f->suffixes, (int64_t)strlen(f->suffixes));
    fputs(", \"doc\": ", stdout);
    json_text(f->doc, (int64_t)strlen(f->doc));
    printf(", \"can_write\": %s}\n", f->can_write ? "true" : "false");
}

static void print_all_json(void)
{
    hr_format_info f;

    for (int i = 0; format_at(i, &f); i++)
        print_json(&f);
}

static hr_status no_format(const char *name, hr_error *err)
{
    char names[500] = "", hint[80];
    const char *known[64];
    size_t n = 0;
    int n_known = 0;
    hr_format_info f;

    for (int i = 0; format_at(i, &f) && n < sizeof names && n_known < LEN(known); i++) {
        n += (size_t)snprintf(names + n, sizeof names - n, " %s", f.name);
        known[n_known++] = f.name;
    }
    return hr_error_set(err, HR_NOT_FOUND, "no format '%s'; the formats are:%s%s", name, names,
                        cli_hint(name, known, n_known, hint, sizeof hint));
}

static hr_status print_options(const char *title, const char *format, hr_direction direction, hr_error *err)
{
    char *text = NULL;

    HR_TRY(hr_format_options(format, direction, &text, err));
    printf("%s:%s%s", title, *text ? "\n" : " none\n", text);
    hr_string_free(text);
    return HR_OK;
}

/* A line for the format, then one for each option. */
static hr_status print_one_json(const hr_format_info *f, hr_error *err)
{
    char *text = NULL;

    print_json(f);
    HR_TRY(hr_format_options(f->name, HR_READ, &text, err));
    json_options("option", text);
    hr_string_free(text);
    if (!f->can_write)
        return HR_OK;
    HR_TRY(hr_format_options(f->name, HR_WRITE, &text, err));
    json_options("write_option", text);
    hr_string_free(text);
    return HR_OK;
}

static hr_status print_one(const char *name, bool json, hr_error *err)
{
    hr_format_info f;

    for (int i = 0;; i++) {
        if (!format_at(i, &f))
            return no_format(name, err);
        if (!strcmp(f.name, name))
            break;
    }
    if (json)
        return print_one_json(&f, err);
    printf("%s: %s\nsuffixes: %s\n", f.name, f.doc, f.suffixes);
    HR_TRY(print_options("options", f.name, HR_READ, err));
    return f.can_write ? print_options("write options", f.name, HR_WRITE, err) : HR_OK;
}

static int formats_run(const command *cmd, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    bool json = false;
    int option;

    optind = 0;
    while ((option = cli_option(cmd, argc, argv, "jh")) != -1)
        if (option == 'j')
            json = true;
        else
            return option == 'h' ? cli_help(cmd) : EXIT_MISUSED;
    if (argc - optind > 1)
        return cli_misused(cmd, "'%s': expected one NAME at most", argv[optind + 1]);
    if (optind == argc)
        json ? print_all_json() : print_all();
    else if (print_one(argv[optind], json, &err))
        return cli_failed(&err);
    return 0;
}

const command cmd_formats = {
    .name = "formats",
    .args = "[OPTION]... [NAME]",
    .doc = "Lists the formats; with a name, lists that format's options and their defaults",
    .more = "  -j, --json               prints one JSON object a line\n"
            "  -h, --help               this text\n",
    .options = long_options,
    .run = formats_run,
};
