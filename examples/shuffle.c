/* shuffle.c - three epochs over the same numbers, each in a random order of its own.
 *
 *     cc shuffle.c $(pkg-config --cflags --libs headrace) -o shuffle
 *
 * The order is a function of seed and epoch: run it twice, with any number of threads, and it prints the same. */
#include <headrace.h>

#include <inttypes.h>
#include <stdio.h>

#define ROWS 100000

/* The first numbers, and the sum of all, which must not depend on the order. */
static hr_status one_epoch(hr_plan *p, int64_t epoch, int64_t *sum, hr_error *err)
{
    hr_feed_options how = { .struct_bytes = sizeof how, .batch_rows = 1024, .seed = 42, .epoch = epoch };
    hr_column_view v = { .struct_bytes = sizeof v };
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_status st = hr_feed_open(p, &how, &f, err);
    int64_t n = 0;

    *sum = 0;
    while (!st && !(st = hr_feed_next(f, &t, err)) && t) {
        st = hr_table_column_view(t, 0, &v, err);
        for (int64_t i = 0; !st && i < v.n_rows; i++, n++) {
            if (n < 8)
                printf("%s%" PRId64, n ? " " : "", ((const int64_t *)v.data)[i]);
            *sum += ((const int64_t *)v.data)[i];
        }
        hr_table_unref(t);
    }
    printf(" ... of %" PRId64 " rows\n", n);
    hr_feed_close(f);
    return st;
}

static hr_status run(hr_error *err)
{
    hr_plan *numbers = NULL, *shuffled = NULL;
    hr_status st = hr_plan_range(ROWS, "id", &numbers, err);
    int64_t sum = 0;

    if (!st)
        st = hr_plan_random_shuffle(numbers, NULL, &shuffled, err); /* NULL: the run's seed, each epoch anew */
    for (int64_t epoch = 0; epoch < 3 && !st; epoch++) {
        st = one_epoch(shuffled, epoch, &sum, err);
        if (!st && sum != (int64_t)ROWS * (ROWS - 1) / 2)
            st = hr_error_set(err, HR_BUG, "rows were lost: their sum is %" PRId64, sum);
    }
    hr_plan_unref(shuffled);
    hr_plan_unref(numbers);
    return st;
}

int main(void)
{
    hr_error err = HR_ERROR_INIT;

    if (run(&err)) {
        fprintf(stderr, "%s\n", err.text);
        hr_error_clear(&err);
        return 1;
    }
    return 0;
}
