/* quickstart.c - reads a folder of Parquet files in batches and adds up one column of numbers.
 *
 *     quickstart [FOLDER [COLUMN [BATCH_ROWS]]]
 *
 *     cc quickstart.c $(pkg-config --cflags --libs headrace) -o quickstart */
#include <headrace.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_valid(const hr_column_view *v, int64_t i)
{
    int64_t bit = v->validity_bit + i;

    return !v->validity || v->validity[bit >> 3] >> (bit & 7) & 1;
}

/* Adds up the column's values that are not null. Arrow's format letter is their type. */
static hr_status add_up(const hr_column_view *v, double *sum, hr_error *err)
{
    for (int64_t i = 0; i < v->n_rows; i++) {
        if (!is_valid(v, i))
            continue;
        switch (v->format[0]) {
        case 'l': *sum += (double)((const int64_t *)v->data)[i]; break;
        case 'i': *sum += ((const int32_t *)v->data)[i]; break;
        case 'c': *sum += ((const int8_t *)v->data)[i]; break;
        case 'f': *sum += (double)((const float *)v->data)[i]; break;
        case 'g': *sum += ((const double *)v->data)[i]; break;
        default: return hr_error_set(err, HR_TYPE, "this example does not add up columns of format '%s'", v->format);
        }
    }
    return HR_OK;
}

static hr_status run(const char *folder, const char *column, int64_t batch_rows, hr_error *err)
{
    const char *suffix = ".parquet";
    hr_read_options read = { .struct_bytes = sizeof read, .suffixes = &suffix, .n_suffixes = 1 };
    hr_feed_options feed = { .struct_bytes = sizeof feed, .batch_rows = batch_rows };
    hr_plan *files = NULL, *plan = NULL;
    hr_feed *f = NULL;
    hr_table *batch = NULL;
    hr_column_view view = { .struct_bytes = sizeof view };
    int64_t n_rows = 0, n_batches = 0;
    double sum = 0;
    hr_status st;

    /* The plan. It reads only the schema of the first file, so that a wrong name is an error here. */
    if ((st = hr_plan_read(&folder, 1, "parquet", &read, &files, err)))
        goto done;
    if ((st = hr_plan_project(files, &column, NULL, 1, &plan, err)))
        goto done;

    /* Now it runs, on all cores, a few batches ahead of us and within the memory limit. */
    if ((st = hr_feed_open(plan, &feed, &f, err)))
        goto done;
    while (!(st = hr_feed_next(f, &batch, err)) && batch) {
        if ((st = hr_table_column_view(batch, 0, &view, err)) || (st = add_up(&view, &sum, err)))
            goto done;
        n_rows += hr_table_rows(batch);
        n_batches++;
        hr_table_unref(batch);
        batch = NULL;
    }
    if (!st)
        printf("%s: %" PRId64 " rows in %" PRId64 " batches, sum(%s) = %.17g\n", folder, n_rows, n_batches, column,
               sum);
done:
    hr_table_unref(batch);
    hr_feed_close(f);
    hr_plan_unref(plan);
    hr_plan_unref(files);
    return st;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "examples/data";
    const char *column = argc > 2 ? argv[2] : "label";
    hr_error err = HR_ERROR_INIT;

    if (run(folder, column, argc > 3 ? atoll(argv[3]) : 1024, &err)) {
        fprintf(stderr, "quickstart: %s: %s\n", hr_status_text(err.status), err.text);
        hr_error_clear(&err);
        return 1;
    }
    return 0;
}
