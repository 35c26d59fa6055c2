/* cmd_schema.c - headrace schema: the columns of files, one "name: type" a line.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <stdlib.h>

static const struct option long_options[] = { INPUT_LONG, { 0 } };

/* Where the type of column c ends in the text: the line of the next column begins after it. */
static const char *type_end(const char *type, const struct ArrowSchema *s, int64_t c)
{
    const char *next = c + 1 < s->n_children ? s->children[c + 1]->name : NULL, *end = strchr(type, '\n');

    while (end && next && (strncmp(end + 1, next, strlen(next)) != 0 || strncmp(end + 1 + strlen(next), ": ", 2) != 0))
        end = strchr(end + 1, '\n');
    return end ? end : type + strlen(type);
}

/* `text`: the schema as hr_plan_print_schema gives it, a line "name: type" for each column. */
static void print_json(const char *text, const struct ArrowSchema *s)
{
    static const char not_null[] = " not null";
    const int64_t n_not_null = sizeof not_null - 1;

    for (int64_t c = 0; c < s->n_children; c++) {
        const char *name = s->children[c]->name, *type = text + strlen(name) + 2, *end = type_end(type, s, c);
        int64_t n = end - type;
        bool nullable = n < n_not_null || strncmp(end - n_not_null, not_null, (size_t)n_not_null) != 0;

        fputs("{\"name\": ", stdout);
        json_text(name, (int64_t)strlen(name));
        fputs(", \"type\": ", stdout);
        json_text(type, nullable ? n : n - n_not_null);
        printf(", \"nullable\": %s}\n", nullable ? "true" : "false");
        text = *end ? end + 1 : end;
    }
}

static hr_status print_schema(void *context, const input *in, hr_plan *p, hr_error *err)
{
    struct ArrowSchema schema = { 0 };
    char *text = NULL;

    (void)context;
    HR_TRY(hr_plan_schema(p, &schema, err));
    if (hr_plan_print_schema(p, &text, err)) {
        schema.release(&schema);
        return err->status;
    }
    if (in->json)
        print_json(text, &schema);
    else
        pipes_print(stdout, text, false);
    schema.release(&schema);
    hr_string_free(text);
    return HR_OK;
}

static int schema_run(const command *cmd, int argc, char **argv)
{
    const inspect how = { .short_options = INPUT_SHORT, .print = print_schema };

    return inspect_run(cmd, &how, argc, argv);
}

const command cmd_schema = {
    .name = "schema",
    .args = "[OPTION]... FILE...",
    .doc = "Prints the names and types of the first file's columns",
    .more = INPUT_HELP,
    .options = long_options,
    .run = schema_run,
};
