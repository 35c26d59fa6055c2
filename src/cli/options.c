/* options.c - reads the options of a command by getopt_long, and says of a wrong one what to write.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct option *option_of(const command *cmd, int value)
{
    for (const struct option *o = cmd->options; o->name; o++)
        if (o->val == value)
            return o;
    return NULL;
}

/* Whether `text`, lines of "name=default  what it is", has the option. */
static bool has_option(const char *text, const char *name)
{
    const size_t n = strlen(name);

    for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (strncmp(line, name, n) == 0 && line[n] == '=')
            return true;
    return false;
}

/* The first format that reads with an option of this name. */
static bool format_with(const char *name, hr_format_info *out)
{
    for (int i = 0;; i++) {
        char *text = NULL;
        bool found;

        *out = (hr_format_info){ .struct_bytes = sizeof *out };
        if (hr_format_at(i, out, NULL))
            return false;
        found = !hr_format_options(out->name, HR_READ, &text, NULL) && has_option(text, name);
        hr_string_free(text);
        if (found)
            return true;
    }
}

/* What other programs call an option, and what it is here. */
static const struct {
    const char *theirs, *ours, *write;
} elsewhere[] = {
    { "by", "key", "--key A,B" },
    { "subset", "key", "--key A,B" },
    { "on", "key", "--key A,B" },
    { "desc", "key", "--key A:desc" },
    { "descending", "key", "--key A:desc" },
    { "asc", "key", "--key A" },
    { "limit", "rows", "--rows N" },
    { "lines", "rows", "--rows N" },
    { "where", "filter", "--filter EXPR" },
    { "query", "filter", "--filter EXPR" },
    { "fields", "columns", "--columns A,B" },
    { "sep", "option", "--option delimiter=C" },
};

/* The hint for `name`, if it is a word of other programs and the command has our option. */
static bool is_elsewhere(const command *cmd, const char *name, char *out, size_t cap)
{
    for (int i = 0; i < LEN(elsewhere); i++)
        for (const struct option *o = cmd->options; o->name && strcmp(elsewhere[i].theirs, name) == 0; o++)
            if (strcmp(o->name, elsewhere[i].ours) == 0)
                return snprintf(out, cap, "; here it is %s", elsewhere[i].write) > 0;
    return false;
}

/* '--given', which the command does not have, or which could be several of its options. */
static void unknown_option(const command *cmd, const char *given)
{
    const char *names[64], *value = strchr(given, '=');
    char name[64], hint[120];
    hr_format_info f;
    int n = 0, length = value ? (int)(value - given) : (int)strlen(given);

    snprintf(name, sizeof name, "%.*s", length, given);
    for (const struct option *o = cmd->options; o->name && n < LEN(names); o++)
        names[n++] = o->name;
    if (!is_elsewhere(cmd, name, hint, sizeof hint))
        cli_hint(name, names, n, hint, sizeof hint);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : *c;
    if (option_of(cmd, 'o') && format_with(name, &f))
        snprintf(hint, sizeof hint, "; of the format %s it is --option %s=%s", f.name, name,
                 value ? value + 1 : "VALUE");
    cli_misused(cmd, "no option '--%.*s'%s", length, given, *hint ? hint : "; --help lists them");
}

int cli_option(const command *cmd, int argc, char **argv, const char *short_options)
{
    const struct option *o;
    const char *at;
    int option;

    opterr = 0;
    option = getopt_long(argc, argv, short_options, cmd->options, NULL);
    if (option != '?')
        return option;
    at = argv[optind - 1];
    if (!optopt)
        unknown_option(cmd, at + 2);
    else if (!(o = option_of(cmd, optopt)))
        cli_misused(cmd, "no option '-%c'; --help lists them", optopt);
    else
        cli_misused(cmd, "--%s: expected %s", o->name, o->has_arg == no_argument ? "no value" : "a value");
    return '?';
}
