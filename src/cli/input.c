/* input.c - what the commands share that read files: their options, and the plan over the files.
 *
 * Tests: test_cli.py. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>

/* What `head` copies of a pipe of text at first. */
#define FIRST_BYTES (1 << 20)

static bool refused(const char *option, hr_error *err)
{
    cli_warn("%s: %s", option, err->text[0] ? err->text : "no memory");
    hr_error_clear(err);
    return false;
}

static bool set_memory(const char *value)
{
    hr_error err = HR_ERROR_INIT;
    int64_t n_bytes = 0;
    hr_status st = hr_parse_bytes(value, &n_bytes, &err);

    if (!st && n_bytes < 1)
        st = hr_error_set(&err, HR_INVALID, "'%s': expected 1 byte or more", value);
    if (!st)
        st = hr_set_memory_limit(n_bytes, &err);
    if (!st)
        return true;
    return refused("--memory", &err);
}

/* The number of the character that the error of an expression names; 0: none. */
static int place_of(const char *error)
{
    const char *at = strstr(error, "character ");

    return at ? atoi(at + strlen("character ")) : 0;
}

/* The text of an expression with a mark under character n. */
static void show_place(const char *text, int n)
{
    if (n > 0 && !strpbrk(text, "\r\n\t\033"))
        fprintf(stderr, "    %s\n    %*s\n", text, n, "^");
}

/* Rows must pass all filters. */
static hr_status add_filter(input *in, const char *text, hr_error *err)
{
    hr_expr *more = NULL, *both[] = { in->filter, NULL };
    hr_status st;

    HR_TRY(hr_expr_parse(text, &more, err));
    if (!in->filter) {
        in->filter = more;
        return HR_OK;
    }
    both[1] = more;
    st = hr_expr_call("and", both, 2, NULL, 0, &in->filter, err);
    hr_expr_unref(both[0]);
    hr_expr_unref(more);
    return st;
}

static bool set_filter(input *in, const char *text)
{
    hr_error err = HR_ERROR_INIT;
    int n;

    if (!add_filter(in, text, &err))
        return true;
    n = place_of(err.text);
    refused("--filter", &err);
    show_place(text, n);
    return false;
}

static bool add_setting(const char ***items, int64_t *n, int64_t *cap, const char *value)
{
    if (!cli_grow(items, cap, *n + 1, sizeof **items))
        return false;
    (*items)[(*n)++] = value;
    return true;
}

/* *out: the value is `yes`; `no` is the other one. */
static bool set_choice(bool *out, const char *option, const char *value, const char *yes, const char *no)
{
    *out = strcmp(value, yes) == 0;
    if (*out || strcmp(value, no) == 0)
        return true;
    cli_warn("%s: expected %s or %s, found '%s'", option, no, yes, value);
    return false;
}

bool input_option(input *in, int option, char *value)
{
    hr_error err = HR_ERROR_INIT;

    if (option == 'm')
        return set_memory(value);
    switch (option) {
    case INPUT_FILTER: return set_filter(in, value);
    case INPUT_FOLDERS: return set_choice(&in->plain_folders, "--partitioning", value, "none", "hive");
    case INPUT_UNIFY: return set_choice(&in->unify, "--unify", value, "all", "first");
    case 'c': return !input_columns(in, value, &err) || refused("--columns", &err);
    case 'f': in->format = value; return true;
    case 'j': return in->json = true;
    case 'q': return in->quiet = true;
    case 'o': return add_setting(&in->settings, &in->n_settings, &in->cap_settings, value) || refused("--option", &err);
    case INPUT_STORAGE:
        if (!strchr(value, '=')) {
            cli_warn("--storage-option: expected NAME=VALUE"); /* it may be a key */
            return false;
        }
        return add_setting(&in->storage, &in->n_storage, &in->cap_storage, value) || refused("--storage-option", &err);
    default: return false;
    }
}

hr_status input_columns(input *in, const char *text, hr_error *err)
{
    for (;; text++) {
        size_t n = strcspn(text, ",");
        char *name = strndup(text, n);

        if (!name || !cli_grow(&in->columns, &in->cap_columns, in->n_columns + 1, sizeof *in->columns)) {
            free(name);
            return cli_no_memory(err, "--columns", (int64_t)n + 1);
        }
        in->columns[in->n_columns++] = name;
        text += n;
        if (!*text)
            return HR_OK;
    }
}

/* A store of Zarr is many files of no format that the engine reads, beside metadata that is JSON but no rows. `urls`:
 * looks at the paths that are URLs, which costs requests; else at the others. */
static hr_status refuse_zarr(const input *in, int argc, char **argv, bool urls, hr_error *err)
{
    for (int i = optind; i < argc && !in->format; i++) {
        bool is_url = strstr(argv[i], "://") && strncmp(argv[i], "file://", 7) != 0;
        zarr_arrays arrays = { 0 };
        hr_error other = HR_ERROR_INIT;
        bool is_store = is_url == urls && !zarr_find(argv[i], in, &arrays, &other) && arrays.is_store;

        zarr_clear(&arrays);
        hr_error_clear(&other);
        if (is_store)
            return hr_error_set(err, HR_UNSUPPORTED,
                                "%s: a Zarr store: read_zarr of the Python package reads its rows, headrace stat "
                                "prints its arrays",
                                argv[i]);
    }
    return HR_OK;
}

hr_status input_plan(input *in, int argc, char **argv, hr_plan **out, hr_error *err)
{
    hr_read_options options = { .struct_bytes = sizeof options };
    const char *const *columns = in->n_columns ? (const char *const *)in->columns : NULL;
    hr_plan *files = NULL, *kept = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    options.columns = in->filter ? NULL : columns; /* a filter may use others */
    options.n_columns = in->filter ? 0 : (int)in->n_columns;
    options.format_options = in->settings;
    options.n_format_options = (int)in->n_settings;
    options.partitioning = in->plain_folders ? NULL : "hive";
    options.partition_text = true;
    options.unify = in->unify;
    options.storage_options = in->storage;
    options.n_storage_options = (int)in->n_storage;
    HR_GO(refuse_zarr(in, argc, argv, false, err));
    st = hr_plan_read((const char *const *)argv + optind, argc - optind, in->format, &options, &files, err);
    if (st) {
        hr_status zarr = refuse_zarr(in, argc, argv, true, err);

        st = zarr ? zarr : st;
        goto done;
    }
    if (in->filter)
        HR_GO(hr_plan_filter_expr(files, in->filter, &kept, err));
    if (kept && columns)
        HR_GO(hr_plan_project(kept, columns, NULL, (int)in->n_columns, out, err));
    else
        *out = hr_plan_ref(kept ? kept : files);
done:
    hr_plan_unref(kept);
    hr_plan_unref(files);
    return st;
}

void input_clear(input *in)
{
    for (int64_t i = 0; i < in->n_columns; i++)
        free(in->columns[i]);
    free(in->columns);
    free(in->settings);
    free(in->storage);
    hr_expr_unref(in->filter);
    *in = (input){ 0 };
}

/* ------------------------------------------------------------------------------------------- commands that print */

/* Copies as much of the pipes as the command needs, and makes its plan. */
static hr_status plan_of_pipes(const inspect *how, input *in, int argc, char **argv, hr_plan **out, hr_error *err)
{
    int64_t n_bytes = how->suffices ? FIRST_BYTES : PIPE_ALL;

    HR_TRY(pipes_open(argv + optind, argc - optind, n_bytes, err));
    for (; !pipes_ended(); n_bytes = n_bytes < PIPE_ALL / 8 ? 8 * n_bytes : PIPE_ALL) {
        hr_error partly = HR_ERROR_INIT;
        bool suffices;

        HR_TRY(pipes_more(n_bytes, err));
        if (pipes_ended())
            break;
        suffices = !input_plan(in, argc, argv, out, &partly) && how->suffices(how->context, *out);
        hr_error_clear(&partly); /* of a part; the whole is read anew */
        if (suffices)
            return HR_OK;
        hr_plan_unref(*out);
        *out = NULL;
    }
    return input_plan(in, argc, argv, out, err);
}

/* Takes the paths out that the command prints without a plan. *argc becomes the number of arguments that are left. */
static hr_status print_own(const inspect *how, const input *in, int *argc, char **argv, hr_error *err)
{
    int n = optind;

    for (int i = optind; i < *argc; i++) {
        bool done = false;

        if (how->own)
            HR_TRY(how->own(in, argv[i], &done, err));
        if (!done)
            argv[n++] = argv[i];
    }
    *argc = n;
    return HR_OK;
}

static int inspect_files(const inspect *how, input *in, int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;
    int status = 0;

    if (print_own(how, in, &argc, argv, &err))
        return cli_failed(&err);
    if (optind == argc)
        return 0;

    if (plan_of_pipes(how, in, argc, argv, &p, &err) || how->print(how->context, in, p, &err))
        status = cli_failed(&err);
    hr_plan_unref(p);
    return status;
}

int inspect_run(const command *cmd, const inspect *how, int argc, char **argv)
{
    input in = { 0 };
    int status = 0, option;

    optind = 0; /* GNU: begin anew */
    while (!status && (option = cli_option(cmd, argc, argv, how->short_options)) != -1) {
        if (option == 'h') {
            status = cli_help(cmd);
            goto done;
        }
        status = how->option ? how->option(cmd, how->context, option, optarg) : -1;
        if (status < 0)
            status = input_option(&in, option, optarg) ? 0 : EXIT_MISUSED;
    }
    if (!status && optind == argc)
        status = cli_misused(cmd, "no FILE is given");
    if (!status)
        status = inspect_files(how, &in, argc, argv);
done:
    input_clear(&in);
    return status;
}

bool cli_count(const char *text, int64_t max, int64_t *out)
{
    char *end = NULL;
    long long n;

    errno = 0;
    n = strtoll(text, &end, 10);
    *out = n;
    return *text >= '0' && *text <= '9' && !*end && !errno && n <= max;
}
