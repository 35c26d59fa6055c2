/* file_list.c - the files that readers see at a path or a URL, as a table.
 *
 * Tests: test_cli_stores.py, test_public_api.c. */
#include "plan/plan.h"

enum { COLUMN_PATH, COLUMN_BYTES, COLUMN_TAG, N_COLUMNS };

static hr_status schema_of_list(hr_schema **out, hr_error *err)
{
    hr_field fields[N_COLUMNS] = {
        [COLUMN_PATH] = { .name = (char *)"path", .type = hr__type_simple(HR_T_STRING) },
        [COLUMN_BYTES] = { .name = (char *)"bytes", .type = hr__type_simple(HR_T_INT64) },
        [COLUMN_TAG] = { .name = (char *)"etag", .type = hr__type_simple(HR_T_STRING), .nullable = true },
    };

    return hr__schema_new(fields, N_COLUMNS, out, err);
}

static hr_status add_file(hr_builder *const *columns, const hr_paths *files, int64_t i, hr_error *err)
{
    const char *path = hr__paths_shown(files, i), *tag = files->items[i].tag;

    HR_TRY(hr__builder_bytes(columns[COLUMN_PATH], path, (int64_t)strlen(path), err));
    HR_TRY(hr__builder_int(columns[COLUMN_BYTES], files->items[i].n_bytes, err));
    return tag ? hr__builder_bytes(columns[COLUMN_TAG], tag, (int64_t)strlen(tag), err)
               : hr__builder_null(columns[COLUMN_TAG], err);
}

static hr_status table_of_list(const hr_paths *files, hr_table **out, hr_error *err)
{
    hr_builder *columns[N_COLUMNS] = { NULL };
    hr_array *arrays[N_COLUMNS] = { NULL };
    hr_schema *schema = NULL;
    hr_origin *origin = NULL;
    hr_status st = HR_OK;

    HR_GO(schema_of_list(&schema, err));
    for (int i = 0; i < N_COLUMNS; i++)
        HR_GO(hr__builder_new(NULL, schema->fields[i].type, &columns[i], err));
    for (int64_t i = 0; i < files->n; i++)
        HR_GO(add_file(columns, files, i, err));
    for (int i = 0; i < N_COLUMNS; i++)
        HR_GO(hr__builder_finish(columns[i], &arrays[i], err));
    HR_GO(hr__origin_made((hr_coord){ 0 }, files->n, &origin, err));
    st = hr__table_new(schema, arrays, files->n, origin, out, err); /* takes the arrays */
    memset(arrays, 0, sizeof arrays);
done:
    for (int i = 0; i < N_COLUMNS; i++) {
        hr__builder_free(columns[i]);
        hr__array_unref(arrays[i]);
    }
    hr__origin_unref(origin);
    hr__schema_unref(schema);
    return st;
}

hr_status hr_list(const char *const *paths, int n_paths, const char *const *storage_options, int n_storage_options,
                  hr_table **out, hr_error *err)
{
    HR_NEED(paths, out);

    hr_paths_options options = { .store_options = storage_options, .n_store_options = n_storage_options };
    hr_paths files = { 0 };
    hr_status st;

    *out = NULL;
    HR_TRY(hr__paths_list(paths, n_paths, &options, NULL, &files, err));
    st = table_of_list(&files, out, err);
    hr__paths_clear(&files);
    return st;
}
