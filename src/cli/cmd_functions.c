/* cmd_functions.c - headrace functions: what expressions can call, from the tables that the engine looks them up in.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>

static const struct option long_options[] = { { "json", no_argument, NULL, 'j' },
                                              { "help", no_argument, NULL, 'h' },
                                              { 0 } };

/* The function of that number; false: there are fewer. */
static bool function_at(int i, hr_function_info *out)
{
    *out = (hr_function_info){ .struct_bytes = sizeof *out };
    return hr_function_at(i, out, NULL) == HR_OK;
}

/* Appends to a usage of `cap` bytes; what does not fit is cut. */
static void add(char *usage, size_t cap, const char *fmt, ...) HR_PRINTF(3, 4);
static void add(char *usage, size_t cap, const char *fmt, ...)
{
    size_t n = strlen(usage);
    va_list args;

    va_start(args, fmt);
    vsnprintf(usage + n, cap - n, fmt, args);
    va_end(args);
}

/* "a + b", "~a", "is_in(a, b)", "cast(a, to=, safe=)"; options: lines "name=default  doc". */
static void print_usage(const hr_function_info *f, const char *options, char *usage, size_t cap)
{
    static const char letters[] = "abcdefgh";
    int n = f->max_args < 0 ? f->min_args : f->max_args;
    bool first = n == 0;

    *usage = 0;
    if (f->symbol && n == 2) {
        add(usage, cap, "a %s b", f->symbol);
        return;
    }
    if (f->symbol) {
        add(usage, cap, "%sa", f->symbol);
        return;
    }
    add(usage, cap, "%s(", f->name);
    for (int i = 0; i < n; i++)
        add(usage, cap, "%s%c", i ? ", " : "", letters[i % 8]);
    if (f->max_args < 0)
        add(usage, cap, "%s...", n ? ", " : "");
    for (; *options; options += strcspn(options, "\n") + 1, first = false) {
        char name[64] = "";

        memcpy(name, options, strcspn(options, "=") % sizeof name);
        add(usage, cap, "%s%s=", first ? "" : ", ", name);
    }
    add(usage, cap, ")");
}

static void print_json(const hr_function_info *f, const char *usage)
{
    fputs("{\"name\": ", stdout);
    json_text(f->name, (int64_t)strlen(f->name));
    fputs(", \"usage\": ", stdout);
    json_text(usage, (int64_t)strlen(usage));
    fputs(", \"doc\": ", stdout);
    json_text(f->doc, (int64_t)strlen(f->doc));
    printf(", \"is_aggregate\": %s}\n", f->is_aggregate ? "true" : "false");
}

static hr_status print_one(const hr_function_info *f, bool json, hr_error *err)
{
    char *options = NULL, usage[200];

    HR_TRY(hr_function_options(f->name, &options, err));
    print_usage(f, options, usage, sizeof usage);
    if (json) {
        print_json(f, usage);
        json_options("option", options);
    } else {
        printf("%s: %s\nusage: %s\noptions:%s%s", f->name, f->doc, usage, *options ? "\n" : " none\n", options);
    }
    hr_string_free(options);
    return HR_OK;
}

static hr_status print_line(const hr_function_info *f, bool json, hr_error *err)
{
    char *options = NULL, usage[200];

    if (f->is_aggregate) {
        snprintf(usage, sizeof usage, "%s(a)", f->name);
    } else {
        HR_TRY(hr_function_options(f->name, &options, err));
        print_usage(f, options, usage, sizeof usage);
        hr_string_free(options);
    }
    if (json)
        print_json(f, usage);
    else if (f->is_aggregate)
        printf("%-16s  %s\n", f->name, f->doc);
    else
        printf("%-16s  %-32s  %s\n", f->name, usage, f->doc);
    return HR_OK;
}

static hr_status print_all(bool json, hr_error *err)
{
    hr_function_info f;
    bool aggregates = false;

    for (int i = 0; function_at(i, &f); i++) {
        if (f.is_aggregate && !aggregates && !json)
            printf("\naggregates (headrace group):\n");
        aggregates = f.is_aggregate;
        HR_TRY(print_line(&f, json, err));
    }
    return HR_OK;
}

static hr_status print_named(const char *name, bool json, hr_error *err)
{
    const char *known[512];
    hr_function_info f;
    char hint[80];
    int n = 0;

    for (int i = 0; function_at(i, &f); i++) {
        if (f.is_aggregate)
            continue;
        if (!strcmp(f.name, name))
            return print_one(&f, json, err);
        if (n < LEN(known))
            known[n++] = f.name;
    }
    cli_hint(name, known, n, hint, sizeof hint);
    return hr_error_set(err, HR_NOT_FOUND, "no function '%s'%s", name,
                        *hint ? hint : "; headrace functions lists them");
}

static int functions_run(const command *cmd, int argc, char **argv)
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
    if (optind == argc ? print_all(json, &err) : print_named(argv[optind], json, &err))
        return cli_failed(&err);
    return 0;
}

const command cmd_functions = {
    .name = "functions",
    .args = "[OPTION]... [NAME]",
    .doc = "Lists the functions of expressions; with a name, lists that function's options and their defaults",
    .more = "  -j, --json               prints one JSON object a line\n"
            "  -h, --help               this text\n",
    .options = long_options,
    .run = functions_run,
};
