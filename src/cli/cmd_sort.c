/* cmd_sort.c - headrace sort: files of any format and size, their rows ordered by columns. */
#include "cli/cli.h"

enum { OPTION_NULLS_FIRST = 512 };
static const struct option long_options[] = {
    { "key", required_argument, NULL, 'k' },
    { "reverse", no_argument, NULL, 'r' },
    { "nulls-first", no_argument, NULL, OPTION_NULLS_FIRST },
    HR_OUTPUT_LONG,
    HR_INPUT_LONG,
    { 0 },
};

typedef struct sort_args {
    hr_sort_key *keys; /* names are those of `names` */
    int64_t n, cap;
    hr_input names;
    bool reverse, nulls_first; /* of all keys */
} sort_args;

/* "a,b:desc,c" */
static hr_status add_keys(sort_args *a, const char *text, hr_error *err)
{
    int64_t from = a->names.n_columns;
    void *keys = a->keys;

    HR_TRY(hr__input_columns(&a->names, text, err));
    if (!hr__grow(NULL, &keys, &a->cap, a->names.n_columns, sizeof *a->keys))
        return hr__error_memory(err, "--key", a->names.n_columns);
    a->keys = keys;
    for (int64_t i = from; i < a->names.n_columns; i++) {
        char *end = strrchr(a->names.columns[i], ':');
        bool falls = end && !strcmp(end, ":desc");

        if (falls || (end && !strcmp(end, ":asc")))
            *end = 0;
        a->keys[a->n++] = (hr_sort_key){ .descending = falls };
    }
    return HR_OK;
}

static int sort_option(const hr_command *cmd, void *context, int option, char *value)
{
    sort_args *a = context;
    hr_error err = HR_ERROR_INIT;

    (void)cmd;
    switch (option) {
    case 'k': return add_keys(a, value, &err) ? hr__cli_failed(&err) : 0;
    case 'r': a->reverse = true; return 0;
    case OPTION_NULLS_FIRST: a->nulls_first = true; return 0;
    default: return -1;
    }
}

static int sort_check(const hr_command *cmd, void *context)
{
    return ((sort_args *)context)->n ? 0 : hr__cli_misused(cmd, "by which column? --key says it");
}

static hr_status sort_plan(void *context, hr_plan *in, hr_plan **out, hr_error *err)
{
    sort_args *a = context;

    for (int64_t i = 0; i < a->n; i++) {
        a->keys[i].column = a->names.columns[i];
        a->keys[i].descending = a->keys[i].descending != a->reverse;
        a->keys[i].nulls_first = a->nulls_first;
    }
    return hr_plan_sort(in, a->keys, (int)a->n, out, err);
}

static int sort_run(const hr_command *cmd, int argc, char **argv)
{
    sort_args a = { 0 };
    const hr_rewrite r = { .short_options = "k:r" HR_OUTPUT_SHORT HR_INPUT_SHORT,
                           .long_options = long_options,
                           .context = &a,
                           .option = sort_option,
                           .check = sort_check,
                           .plan = sort_plan };
    int status = hr__rewrite_run(cmd, &r, argc, argv);

    hr__input_clear(&a.names);
    hr__free(a.keys);
    return status;
}

const hr_command hr__cmd_sort = {
    .name = "sort",
    .args = "[OPTION]... --key A[:desc],... IN... OUT",
    .doc = "Files of any format and size, ordered by columns",
    .more =
        "  -k, --key A,B:desc       the columns that decide, the first one first; may be repeated\n"
        "  -r, --reverse            every key the other way round\n"
        "      --nulls-first        nulls at the beginning; else they stand at the end\n" HR_OUTPUT_HELP HR_INPUT_HELP,
    .run = sort_run,
};
