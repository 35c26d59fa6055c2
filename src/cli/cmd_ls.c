/* cmd_ls.c - headrace ls: the files that the other commands read, local ones or of a store.
 *
 * Tests: test_cli_stores.py. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>

static const struct option long_options[] = { { "long", no_argument, NULL, 'l' },
                                              STORAGE_LONG,
                                              { "json", no_argument, NULL, 'j' },
                                              { "help", no_argument, NULL, 'h' },
                                              { 0 } };

/* A line for each file; with sizes in a column that is as wide as the largest, and a last line for all. */
static hr_status print_names(const hr_table *t, bool sizes, hr_error *err)
{
    hr_text_view names = { .struct_bytes = sizeof names };
    hr_column_view bytes = { .struct_bytes = sizeof bytes };
    int64_t total = 0;
    int width;

    HR_TRY(hr_table_text_view(t, 0, &names, err));
    HR_TRY(hr_table_column_view(t, 1, &bytes, err));
    for (int64_t i = 0; i < names.n_rows; i++)
        total += ((const int64_t *)bytes.data)[i];
    width = snprintf(NULL, 0, "%" PRId64, total);
    for (int64_t i = 0; i < names.n_rows; i++) {
        int64_t n;
        const char *name = hr_text_at(&names, i, &n);
        char *copy = strndup(name ? name : "", name ? (size_t)n : 0);

        if (!copy)
            return cli_no_memory(err, "ls", n);
        if (sizes)
            printf("%*" PRId64 "  ", width, ((const int64_t *)bytes.data)[i]);
        pipes_print(stdout, copy, true);
        putchar('\n');
        free(copy);
    }
    if (sizes)
        printf("%" PRId64 "  %" PRId64 " file%s\n", total, names.n_rows, names.n_rows == 1 ? "" : "s");
    return HR_OK;
}

static hr_status print_json(const hr_table *t, hr_error *err)
{
    char *text = NULL;

    HR_TRY(hr_table_print_json(t, 0, hr_table_rows(t), &text, err));
    fputs(text, stdout);
    hr_string_free(text);
    return HR_OK;
}

static int list(const input *in, char **paths, int n, bool sizes)
{
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    int status = 0;

    if (hr_list((const char *const *)paths, n, in->storage, (int)in->n_storage, &t, &err) ||
        (in->json ? print_json(t, &err) : print_names(t, sizes, &err)))
        status = cli_failed(&err);
    hr_table_unref(t);
    return status;
}

static int ls_run(const command *cmd, int argc, char **argv)
{
    bool sizes = false;
    int option, status = 0;
    input in = { 0 };

    optind = 0;
    while (!status && (option = cli_option(cmd, argc, argv, "ljh")) != -1) {
        if (option == 'h') {
            status = cli_help(cmd);
            goto done;
        }
        sizes = sizes || option == 'l';
        status = option == 'l' || input_option(&in, option, optarg) ? 0 : EXIT_MISUSED;
    }
    if (!status && optind == argc)
        status = cli_misused(cmd, "expected PATH...");
    if (!status)
        status = list(&in, argv + optind, argc - optind, sizes);
done:
    input_clear(&in);
    return status;
}

const command cmd_ls = {
    .name = "ls",
    .args = "[OPTION]... PATH...",
    .doc = "Lists the files that the other commands read, local ones or of a store",
    .more = "  -l, --long               bytes before each name, and a line for all files together\n" STORAGE_HELP
            "  -j, --json               prints a JSON object for each file: path, bytes, etag\n"
            "  -h, --help               this text\n"
            "\nA PATH is a file, a folder, a glob pattern, or a URL of one.\n",
    .options = long_options,
    .run = ls_run,
};
