/* cmd_formats.c - headrace formats: what can be read, and each format's options, from the tables that parse them. */
#include "cli/cli.h"

#include <stdio.h>

static const struct option long_options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };

static void print_all(void)
{
    int name_width = 0, suffix_width = 0;

    for (int i = 0; hr__formats[i]; i++) {
        name_width = HR_MAX(name_width, (int)strlen(hr__formats[i]->name));
        suffix_width = HR_MAX(suffix_width, (int)strlen(hr__formats[i]->suffixes));
    }
    for (int i = 0; hr__formats[i]; i++)
        printf("%-*s  %-*s  %s\n", name_width, hr__formats[i]->name, suffix_width, hr__formats[i]->suffixes,
               hr__formats[i]->doc);
}

static hr_status print_one(const char *name, hr_error *err)
{
    const hr_format *format = hr__format_by_name(name);
    hr_text text = { 0 };
    hr_status st = HR_OK;

    if (!format) {
        for (int i = 0; hr__formats[i]; i++)
            hr__text_add(&text, " %s", hr__formats[i]->name);
        HR_FAIL(HR_NOT_FOUND, "no format '%s'; there are:%s", name, text.data ? text.data : "");
    }
    printf("%s: %s\nsuffixes: %s\n", format->name, format->doc, format->suffixes);
    if (format->options)
        hr__options_print(format->options, &text);
    if (text.failed)
        HR_FAIL(HR_NO_MEMORY, "no memory for the text of the options");
    printf("options:%s%s", text.n ? "\n" : " none\n", text.n ? text.data : "");
    hr__text_clear(&text);
    if (format->write_options)
        hr__options_print(format->write_options, &text);
    if (text.failed)
        HR_FAIL(HR_NO_MEMORY, "no memory for the text of the options");
    if (format->create)
        printf("write options:%s%s", text.n ? "\n" : " none\n", text.n ? text.data : "");
done:
    hr__text_clear(&text);
    return st;
}

static int formats_run(const hr_command *cmd, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    int option;

    optind = 0;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
        return option == 'h' ? hr__cli_help(cmd) : HR_EXIT_MISUSED;
    if (argc - optind > 1)
        return hr__cli_misused(cmd, "one name at most, not '%s'", argv[optind + 1]);
    if (optind == argc)
        print_all();
    else if (print_one(argv[optind], &err))
        return hr__cli_failed(&err);
    return 0;
}

const hr_command hr__cmd_formats = {
    .name = "formats",
    .args = "[NAME]",
    .doc = "The formats that can be read; with a name, that format's options and their defaults",
    .more = "  -h, --help               this text\n",
    .run = formats_run,
};
