/* split.c - one pass over Parquet files, shared by N threads: each gets its own batches, and all make as many steps.
 *
 *     split FOLDER [N_RANKS [BATCH_ROWS]]
 *
 *     cc split.c $(pkg-config --cflags --libs headrace) -lpthread -o split */
#include <headrace.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_RANKS 64

typedef struct consumer {
    pthread_t thread;
    hr_split *split;
    int rank;
    int64_t n_rows, n_batches;
    hr_status st;
    hr_error err;
} consumer;

/* A training loop: begins an epoch, takes batches until the end. */
static void *consume(void *arg)
{
    consumer *c = arg;
    hr_table *batch = NULL;

    c->st = hr_split_begin(c->split, c->rank, -1, &c->err); /* waits for the other ranks */
    while (!c->st && !(c->st = hr_split_next(c->split, c->rank, -1, &batch, &c->err)) && batch) {
        c->n_rows += hr_table_rows(batch);
        c->n_batches++;
        hr_table_unref(batch);
    }
    if (c->st) /* the others end with HR_PEER and this text */
        hr_split_lost(c->split, c->rank, c->err.text);
    return NULL;
}

/* All ranks, each on a thread; the first error is *err. */
static hr_status run_ranks(hr_split *split, consumer *ranks, int n, hr_error *err)
{
    hr_status st = HR_OK;
    int n_started = 0;

    for (; n_started < n && !st; n_started++) {
        ranks[n_started] = (consumer){ .split = split, .rank = n_started };
        if (pthread_create(&ranks[n_started].thread, NULL, consume, &ranks[n_started])) {
            st = hr_error_set(err, HR_IO, "rank %d: its thread does not start", n_started);
            hr_split_close(split); /* the ranks that wait for it end */
            break;
        }
    }
    for (int r = 0; r < n_started; r++) {
        pthread_join(ranks[r].thread, NULL);
        if (!st && ranks[r].st)
            st = hr_error_set(err, ranks[r].st, "%s", ranks[r].err.text);
        hr_error_clear(&ranks[r].err);
    }
    return st;
}

static hr_status run(const char *folder, int n_ranks, int64_t batch_rows, hr_error *err)
{
    const char *suffix = ".parquet";
    hr_read_options read = { .struct_bytes = sizeof read, .suffixes = &suffix, .n_suffixes = 1 };
    hr_feed_options options = { .struct_bytes = sizeof options, .batch_rows = batch_rows };
    consumer ranks[MOST_RANKS];
    hr_split *split = NULL;
    hr_plan *plan = NULL;
    hr_status st;

    if ((st = hr_plan_read(&folder, 1, "parquet", &read, &plan, err)) ||
        (st = hr_split_open(plan, n_ranks, HR_TAIL_EQUAL, &options, &split, err)) ||
        (st = run_ranks(split, ranks, n_ranks, err)))
        goto done;
    for (int r = 0; r < n_ranks; r++)
        printf("rank %d: %" PRId64 " rows in %" PRId64 " batches\n", r, ranks[r].n_rows, ranks[r].n_batches);
done:
    hr_split_close(split);
    hr_split_unref(split);
    hr_plan_unref(plan);
    return st;
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "examples/data";
    int n_ranks = argc > 2 ? atoi(argv[2]) : 4;
    hr_error err = HR_ERROR_INIT;

    if (n_ranks < 1 || n_ranks > MOST_RANKS) {
        fprintf(stderr, "split: %d ranks; this example has 1 to %d\n", n_ranks, MOST_RANKS);
        return 2;
    }
    if (run(folder, n_ranks, argc > 3 ? atoll(argv[3]) : 256, &err)) {
        fprintf(stderr, "split: %s: %s\n", hr_status_text(err.status), err.text);
        hr_error_clear(&err);
        return 1;
    }
    return 0;
}
