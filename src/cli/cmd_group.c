/* cmd_group.c - headrace group: files of any format and size, a row for rows of equal keys.
 *
 * An aggregate is written as it is called: "mean(fare)", "count()", "quantile(dist, q=0.9) as far".
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdlib.h>

static const struct option long_options[] = {
    { "key", required_argument, NULL, 'k' },
    { "by", required_argument, NULL, 'k' },
    { "agg", required_argument, NULL, 'a' },
    PRINT_LONG,
    OUTPUT_LONG,
    INPUT_LONG,
    { 0 },
};

#define MAX_SETTINGS 4

typedef struct aggregate_text {
    char *text; /* owned, cut into the parts below */
    const char *settings[MAX_SETTINGS];
} aggregate_text;

typedef struct group_args {
    input keys;
    hr_aggregate *aggs;
    aggregate_text *texts;
    int64_t n, cap_aggs, cap_texts;
} group_args;

static char *trimmed(char *s)
{
    size_t n;

    while (*s == ' ')
        s++;
    for (n = strlen(s); n && s[n - 1] == ' ';)
        s[--n] = 0;
    return s;
}

static hr_status misread(const char *text, hr_error *err)
{
    return hr_error_set(err, HR_INVALID,
                        "--agg '%s': expected a call such as 'mean(x)', 'count()' or "
                        "'quantile(x, q=0.9) as far'",
                        text);
}

/* Cuts t->text into function, column, settings and name. */
static hr_status parse(aggregate_text *t, const char *whole, hr_aggregate *out, hr_error *err)
{
    char *open = strchr(t->text, '('), *close = strrchr(t->text, ')'), *part, *rest;

    *out = (hr_aggregate){ .struct_bytes = sizeof *out, .settings = t->settings };
    if (!open || !close || close < open)
        return misread(whole, err);
    *open = *close = 0;
    out->function = trimmed(t->text);
    part = trimmed(close + 1);
    if (*part && strncmp(part, "as ", 3) != 0)
        return misread(whole, err);
    if (*part)
        out->name = trimmed(part + 3);
    for (part = open + 1; part; part = rest) {
        if ((rest = strchr(part, ',')))
            *rest++ = 0;
        part = trimmed(part);
        if (!*part && !rest)
            break;
        if (part == trimmed(open + 1) && !strchr(part, '='))
            out->column = part;
        else if (out->n_settings < MAX_SETTINGS)
            t->settings[out->n_settings++] = part;
        else
            return misread(whole, err);
    }
    return HR_OK;
}

static hr_status add_aggregate(group_args *a, const char *text, hr_error *err)
{
    hr_status st;

    if (!cli_grow(&a->aggs, &a->cap_aggs, a->n + 1, sizeof *a->aggs) ||
        !cli_grow(&a->texts, &a->cap_texts, a->n + 1, sizeof *a->texts))
        return cli_no_memory(err, "--agg", a->n);
    a->texts[a->n] = (aggregate_text){ .text = strdup(text) };
    if (!a->texts[a->n].text)
        return cli_no_memory(err, "--agg", (int64_t)strlen(text));
    st = parse(&a->texts[a->n], text, &a->aggs[a->n], err);
    a->n++;
    return st;
}

static int group_option(const command *cmd, void *context, int option, char *value)
{
    group_args *a = context;
    hr_error err = HR_ERROR_INIT;

    (void)cmd;
    switch (option) {
    case 'k': return input_columns(&a->keys, value, &err) ? cli_failed(&err) : 0;
    case 'a': return add_aggregate(a, value, &err) ? cli_failed(&err) : 0;
    default: return -1;
    }
}

static int group_check(const command *cmd, void *context)
{
    const group_args *a = context;

    return a->n || a->keys.n_columns ? 0 : cli_misused(cmd, "no --key and no --agg is given");
}

static hr_status group_plan(void *context, hr_plan *in, hr_plan **out, hr_error *err)
{
    group_args *a = context;

    for (int64_t i = 0; i < a->n; i++)
        a->aggs[i].settings = a->texts[i].settings; /* they may have moved */
    return hr_plan_group(in, (const char *const *)a->keys.columns, (int)a->keys.n_columns, a->aggs, (int)a->n, out,
                         err);
}

static int group_run(const command *cmd, int argc, char **argv)
{
    group_args a = { 0 };
    const rewrite r = { .prints = true,
                        .short_options = "k:a:" OUTPUT_SHORT INPUT_SHORT,
                        .context = &a,
                        .option = group_option,
                        .check = group_check,
                        .plan = group_plan };
    int status = rewrite_run(cmd, &r, argc, argv);

    input_clear(&a.keys);
    for (int64_t i = 0; i < a.n; i++)
        free(a.texts[i].text);
    free(a.texts);
    free(a.aggs);
    return status;
}

const command cmd_group = {
    .name = "group",
    .args = "[OPTION]... --key A,... --agg 'mean(X)' IN... [OUT]",
    .doc = "Writes or prints one row for all rows with equal keys, of files of any format and size",
    .more = "  -k, --key A,B            the columns whose values make a group; default: all rows are one group;\n"
            "                           --by is the same\n"
            "  -a, --agg 'mean(X)'      one result for each group: a function, a column, settings and a name, as in\n"
            "                           'quantile(X, q=0.9) as far'; may be repeated. headrace functions lists "
            "them\n" PRINT_HELP OUTPUT_HELP INPUT_HELP,
    .options = long_options,
    .run = group_run,
};
