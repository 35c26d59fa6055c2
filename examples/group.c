/* group.c - groups rows of files by a column: the number of rows, and the mean of another column.
 *
 *     group FILES KEY COLUMN
 *
 *     cc group.c $(pkg-config --cflags --libs headrace) -o group */
#include <headrace.h>

#include <inttypes.h>
#include <stdio.h>

static hr_status run(const char *files, const char *key, const char *column, hr_error *err)
{
    hr_aggregate aggregates[] = {
        { .struct_bytes = sizeof(hr_aggregate), .function = "count", .name = "rows" },
        { .struct_bytes = sizeof(hr_aggregate), .function = "mean", .column = column },
    };
    hr_plan *read = NULL, *groups = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    char text[80];
    hr_status st = hr_plan_read(&files, 1, NULL, NULL, &read, err);

    if (!st)
        st = hr_plan_group(read, &key, 1, aggregates, 2, &groups, err); /* a wrong column or type is an error here */
    if (!st)
        st = hr_feed_open(groups, NULL, &f, err);
    while (!st && !(st = hr_feed_next(f, &t, err)) && t) {
        for (int64_t row = 0; row < hr_table_rows(t); row++)
            for (int c = 0; c < hr_table_columns(t); c++) {
                hr_table_print_value(t, row, c, text, sizeof text);
                printf("%s%s", text, c + 1 < hr_table_columns(t) ? "\t" : "\n");
            }
        hr_table_unref(t);
    }
    hr_feed_close(f);
    hr_plan_unref(groups);
    hr_plan_unref(read);
    return st;
}

int main(int argc, char **argv)
{
    hr_error err = HR_ERROR_INIT;

    if (argc < 4) {
        fprintf(stderr, "usage: %s FILES KEY COLUMN\n", argv[0]);
        return 2;
    }
    if (run(argv[1], argv[2], argv[3], &err)) {
        fprintf(stderr, "%s\n", err.text);
        hr_error_clear(&err);
        return 1;
    }
    return 0;
}
