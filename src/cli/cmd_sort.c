/* cmd_sort.c - headrace sort: files of any format and size, their rows ordered by columns.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdlib.h>
#include <strings.h>

enum { OPTION_NULLS_FIRST = 512 };
static const struct option long_options[] = {
    { "key", required_argument, NULL, 'k' },
    { "by", required_argument, NULL, 'k' },
    { "reverse", no_argument, NULL, 'r' },
    { "nulls-first", no_argument, NULL, OPTION_NULLS_FIRST },
    { "rows", required_argument, NULL, 'n' },
    PRINT_LONG,
    OUTPUT_LONG,
    INPUT_LONG,
    { 0 },
};

typedef struct sort_args {
    hr_sort_key *keys; /* their names are borrowed from `names` */
    int64_t n, cap;
    input names;
    bool reverse, nulls_first; /* of all keys */
    int64_t n_rows;            /* < 0: all */
} sort_args;

/* Takes the direction off a key: "b:desc", or as in SQL "b desc". */
static bool falls(char *key)
{
    char *end = strrchr(key, ':');

    end = end ? end : strrchr(key, ' ');
    if (!end || (strcasecmp(end + 1, "desc") && strcasecmp(end + 1, "asc")))
        return false;
    *end = 0;
    return (end[1] | 32) == 'd';
}

/* "a,b:desc,c" */
static hr_status add_keys(sort_args *a, const char *text, hr_error *err)
{
    int64_t from = a->names.n_columns;

    HR_TRY(input_columns(&a->names, text, err));
    if (!cli_grow(&a->keys, &a->cap, a->names.n_columns, sizeof *a->keys))
        return cli_no_memory(err, "--key", a->names.n_columns);
    for (int64_t i = from; i < a->names.n_columns; i++)
        a->keys[a->n++] =
            (hr_sort_key){ .struct_bytes = sizeof(hr_sort_key), .descending = falls(a->names.columns[i]) };
    return HR_OK;
}

static int sort_option(const command *cmd, void *context, int option, char *value)
{
    sort_args *a = context;
    hr_error err = HR_ERROR_INIT;

    switch (option) {
    case 'k': return add_keys(a, value, &err) ? cli_failed(&err) : 0;
    case 'r': a->reverse = true; return 0;
    case OPTION_NULLS_FIRST: a->nulls_first = true; return 0;
    case 'n':
        if (!cli_count(value, INT64_MAX, &a->n_rows))
            return cli_misused(cmd, "--rows %s: expected a number of rows", value);
        return 0;
    default: return -1;
    }
}

static int sort_check(const command *cmd, void *context)
{
    return ((sort_args *)context)->n ? 0 : cli_misused(cmd, "no --key is given");
}

static hr_status sort_plan(void *context, hr_plan *in, hr_plan **out, hr_error *err)
{
    sort_args *a = context;
    hr_plan *sorted = NULL;
    hr_status st;

    for (int64_t i = 0; i < a->n; i++) {
        a->keys[i].column = a->names.columns[i];
        a->keys[i].descending = a->keys[i].descending != a->reverse;
        a->keys[i].nulls_first = a->nulls_first;
    }
    if (a->n_rows < 0)
        return hr_plan_sort(in, a->keys, (int)a->n, out, err);
    *out = NULL;
    HR_TRY(hr_plan_sort(in, a->keys, (int)a->n, &sorted, err));
    st = hr_plan_limit(sorted, a->n_rows, out, err);
    hr_plan_unref(sorted);
    return st;
}

static int sort_run(const command *cmd, int argc, char **argv)
{
    sort_args a = { .n_rows = -1 };
    const rewrite r = { .prints = true,
                        .short_options = "k:rn:" OUTPUT_SHORT INPUT_SHORT,
                        .context = &a,
                        .option = sort_option,
                        .check = sort_check,
                        .plan = sort_plan };
    int status = rewrite_run(cmd, &r, argc, argv);

    input_clear(&a.names);
    free(a.keys);
    return status;
}

const command cmd_sort = {
    .name = "sort",
    .args = "[OPTION]... --key A[:desc],... IN... [OUT]",
    .doc = "Writes or prints the rows of files of any format and size, ordered by columns",
    .more = "  -k, --key A,B:desc       the keys of the order, the first one decides first; may be repeated;\n"
            "                           --by is the same\n"
            "  -r, --reverse            reverses the order of every key\n"
            "      --nulls-first        puts nulls first; default: last\n"
            "  -n, --rows N             writes only the first N rows of that order, and keeps no more\n" PRINT_HELP
                OUTPUT_HELP INPUT_HELP,
    .options = long_options,
    .run = sort_run,
};
