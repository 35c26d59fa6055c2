/* sort.c - Parquet files ordered by a column: the first rows, or all of them as a Parquet file.
 *
 *     sort FOLDER COLUMN [OUT.parquet]
 *
 *     cc sort.c $(pkg-config --cflags --libs headrace) -o sort
 *
 * More rows than memory: HEADRACE_MEMORY_LIMIT=256MiB HEADRACE_SPILL_DIR=/scratch sort ... gives the same rows. */
#include <headrace.h>

#include <inttypes.h>
#include <stdio.h>

/* Prints all rows of the feed in order, or the first few. */
static hr_status print_rows(hr_feed *f, int column, int64_t n, hr_error *err)
{
    hr_table *t = NULL;
    int64_t row = 0;
    char text[80];

    while (row < n) {
        hr_status st = hr_feed_next(f, &t, err);

        if (st || !t)
            return st;
        for (int64_t i = 0; i < hr_table_rows(t) && row < n; i++, row++) {
            hr_table_print_value(t, i, column, text, sizeof text);
            printf("%" PRId64 ": %s\n", row, text);
        }
        hr_table_unref(t);
    }
    return HR_OK;
}

static hr_status run(const char *folder, const char *column, const char *path, hr_error *err)
{
    hr_sort_key keys[] = { { .struct_bytes = sizeof(hr_sort_key), .column = column, .descending = true } };
    hr_write_options how = { .struct_bytes = sizeof how, .mode = HR_WRITE_OVERWRITE, .single_file = true };
    hr_plan *read = NULL, *sorted = NULL, *only = NULL, *written = NULL;
    hr_feed *f = NULL;
    const char *suffix = ".parquet";
    hr_read_options files = { .struct_bytes = sizeof files, .suffixes = &suffix, .n_suffixes = 1 };
    hr_status st = hr_plan_read(&folder, 1, "parquet", &files, &read, err);

    if (!st)
        st = hr_plan_sort(read, keys, 1, &sorted, err); /* an unknown column is an error here */
    if (!st && path)
        st = hr_plan_write(sorted, NULL, path, &how, &written, err);
    else if (!st)
        st = hr_plan_project(sorted, &column, NULL, 1, &only, err);
    if (!st)
        st = hr_feed_open(path ? written : only, NULL, &f, err);
    if (!st)
        st = print_rows(f, 0, path ? 1 : 10, err); /* the rows of a write are the names of the files */
    hr_feed_close(f);
    hr_plan_unref(written);
    hr_plan_unref(only);
    hr_plan_unref(sorted);
    hr_plan_unref(read);
    return st;
}

int main(int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;

    if (argc < 3) {
        fprintf(stderr, "usage: %s FOLDER COLUMN [OUT.parquet]\n", argv[0]);
        return 2;
    }
    if (run(argv[1], argv[2], argc > 3 ? argv[3] : NULL, &err)) {
        fprintf(stderr, "%s\n", err.text);
        hr_error_clear(&err);
        return 1;
    }
    return 0;
}
