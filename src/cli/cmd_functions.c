/* cmd_functions.c - headrace functions: what expressions can call, from the tables that the engine looks them up in. */
#include "cli/cli.h"

#include <stdio.h>

static const struct option long_options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };

/* "a + b", "~a", "is_in(a, b)", "cast(a, to=, safe=)" */
static void print_usage(const hr_expr_function *f, hr_text *out)
{
    static const char letters[] = "abcdefgh";
    int n = f->max_args < 0 ? f->min_args : f->max_args;
    bool first = n == 0;

    if (f->symbol && n == 2) {
        hr__text_add(out, "a %s b", f->symbol);
        return;
    }
    if (f->symbol) {
        hr__text_add(out, "%sa", f->symbol);
        return;
    }
    hr__text_add(out, "%s(", f->name);
    for (int i = 0; i < n; i++)
        hr__text_add(out, "%s%c", i ? ", " : "", letters[i % 8]);
    if (f->max_args < 0)
        hr__text_add(out, "%s...", n ? ", " : "");
    for (const hr_option *o = f->options; o && o->name; o++, first = false)
        hr__text_add(out, "%s%s=", first ? "" : ", ", o->name);
    hr__text_add(out, ")");
}

static hr_status print_one(const hr_expr_function *f, hr_error *err)
{
    hr_text text = { 0 };
    hr_status st = HR_OK;

    hr__text_add(&text, "%s: %s\nusage: ", f->name, f->doc);
    print_usage(f, &text);
    hr__text_add(&text, "\noptions:%s", f->options ? "\n" : " none\n");
    hr__options_print(f->options, &text);
    if (text.failed)
        HR_FAIL(HR_NO_MEMORY, "no memory for the text of '%s'", f->name);
    fputs(text.data, stdout);
done:
    hr__text_clear(&text);
    return st;
}

static hr_status print_all(hr_error *err)
{
    hr_text usage = { 0 };
    const char *name, *doc;
    hr_status st = HR_OK;

    for (int i = 0; hr__expr_tables[i]; i++)
        for (const hr_expr_function *f = hr__expr_tables[i]; f->name; f++) {
            usage.n = 0;
            print_usage(f, &usage);
            if (usage.failed)
                HR_FAIL(HR_NO_MEMORY, "no memory for the text of '%s'", f->name);
            printf("%-16s  %-32s  %s\n", f->name, usage.data, f->doc);
        }
    printf("\naggregates (headrace group):\n");
    for (int i = 0; (name = hr__aggregate_at(i, &doc)); i++)
        printf("%-16s  %s\n", name, doc);
done:
    hr__text_clear(&usage);
    return st;
}

static hr_status print_named(const char *name, hr_error *err)
{
    const hr_expr_function *f = hr__expr_function(name);

    if (!f)
        return hr_error_set(err, HR_NOT_FOUND, "no function '%s'; headrace functions lists what there is", name);
    return print_one(f, err);
}

static int functions_run(const hr_command *cmd, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    int option;

    optind = 0;
    while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
        return option == 'h' ? hr__cli_help(cmd) : HR_EXIT_MISUSED;
    if (argc - optind > 1)
        return hr__cli_misused(cmd, "one name at most, not '%s'", argv[optind + 1]);
    if (optind == argc ? print_all(&err) : print_named(argv[optind], &err))
        return hr__cli_failed(&err);
    return 0;
}

const hr_command hr__cmd_functions = {
    .name = "functions",
    .args = "[NAME]",
    .doc = "The functions of expressions; with a name, that function's options and their defaults",
    .more = "  -h, --help               this text\n",
    .run = functions_run,
};
