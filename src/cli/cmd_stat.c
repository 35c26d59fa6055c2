/* cmd_stat.c - headrace stat: what files keep of their contents, read from metadata alone.
 *
 * A line for the file, what its format says of it, then a line for each fragment and what the format says of that. */
#include "cli/cli.h"
#include "format/format.h"

#include <stdio.h>

static const struct option long_options[] = { HR_INPUT_LONG, { 0 } };

/* Terminals obey what is below a blank; names and values come from strangers. */
static void print_clean(const hr_text *t)
{
    for (int64_t i = 0; i < t->n; i++) {
        unsigned char c = (unsigned char)t->data[i];

        putchar((c < ' ' && c != '\n') || c == 0x7f ? '?' : c);
    }
}

static hr_status describe(hr_scan_file *f, int fragment, hr_text *text, hr_error *err)
{
    hr_status st = HR_OK;

    if (f->cls->describe)
        st = f->cls->describe(f, fragment, text, err);
    if (!st && text->failed)
        st = hr__error_memory(err, f->name, text->n);
    print_clean(text);
    text->n = 0;
    return st;
}

static hr_status print_fragment(hr_scan_file *f, int i, hr_text *text, hr_error *err)
{
    hr_fragment fragment;

    HR_TRY(f->cls->fragment(f, i, &fragment, err));
    hr__text_add(text, "fragment %d: ", i);
    if (fragment.n_rows >= 0)
        hr__text_add(text, "%lld rows, ", (long long)fragment.n_rows);
    hr__text_add(text, "%lld bytes stored, about %lld in memory\n", (long long)fragment.stored_bytes,
                 (long long)fragment.memory_bytes);
    return describe(f, i, text, err);
}

static hr_status print_file(hr_scan_file *f, hr_text *text, hr_error *err)
{
    hr__text_add(text, "%s: ", f->name);
    if (f->n_rows >= 0)
        hr__text_add(text, "%lld rows in ", (long long)f->n_rows);
    hr__text_add(text, "%d fragments\n", f->n_fragments);
    HR_TRY(describe(f, -1, text, err));
    for (int i = 0; i < f->n_fragments; i++)
        HR_TRY(print_fragment(f, i, text, err));
    return HR_OK;
}

static hr_status print_files(const hr_input *in, int argc, char **argv, hr_error *err)
{
    hr_read_options options = { .struct_bytes = sizeof options,
                                .format_options = in->settings,
                                .n_format_options = (int)in->n_settings };
    hr_scan *scan = NULL;
    hr_text text = { 0 };
    hr_status st = HR_OK;

    HR_GO(hr__scan_new_files((const char *const *)argv + optind, argc - optind, in->format, &options, &scan, err));
    for (int i = 0; i < hr__scan_n_files(scan); i++) {
        hr_scan_file *f = NULL;

        HR_GO(hr__scan_open(scan, i, &(hr_open){ 0 }, &f, err));
        st = print_file(f, &text, err);
        hr__scan_file_unref(f);
        if (st)
            break;
    }
done:
    hr__text_clear(&text);
    hr__scan_unref(scan);
    return st;
}

static int stat_run(const hr_command *cmd, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    hr_input in = { 0 };
    int status = 0, option;

    optind = 0; /* GNU: begin anew */
    while (!status && (option = getopt_long(argc, argv, HR_INPUT_SHORT, long_options, NULL)) != -1) {
        if (option == 'h') {
            status = hr__cli_help(cmd);
            goto done;
        }
        if (!hr__input_option(&in, option, optarg))
            status = HR_EXIT_MISUSED;
    }
    if (!status && optind == argc)
        status = hr__cli_misused(cmd, "which file?");
    if (!status && print_files(&in, argc, argv, &err))
        status = hr__cli_failed(&err);
done:
    hr__input_clear(&in);
    return status;
}

const hr_command hr__cmd_stat = {
    .name = "stat",
    .args = "[OPTION]... FILE...",
    .doc = "What the files keep of their contents: fragments, encodings, sizes, least and most values",
    .more = HR_INPUT_HELP,
    .run = stat_run,
};
