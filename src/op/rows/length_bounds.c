/* length_bounds.c - chooses bounds of buckets of lengths for a sample of lengths.
 *
 * A bucket (a, b] of c rows costs c * b tokens when all its rows are padded to b. The cheapest partition into k buckets
 * comes from the cheapest partitions into k - 1 buckets of all shorter lengths. Up to MAX_CANDIDATES lengths, each
 * after an equal share of the tokens, may be bounds, so this takes less than 2^24 steps.
 *
 * Tests: test_batch_by_length.c. */
#include "op/rows/length_batches.h"

#include <stdlib.h>

#define MAX_CANDIDATES 256

typedef struct candidates {
    int64_t length[MAX_CANDIDATES];
    int64_t n_rows[MAX_CANDIDATES]; /* up to that length */
    int n;
} candidates;

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Of sorted lengths. */
static void choose_candidates(const int64_t *lengths, int64_t n, candidates *c)
{
    int64_t all = 0, sum = 0;

    for (int64_t i = 0; i < n; i++)
        all += HR_MAX(lengths[i], 1);
    c->n = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t share = all / MAX_CANDIDATES + 1;

        sum += HR_MAX(lengths[i], 1);
        if (i + 1 < n && (lengths[i + 1] == lengths[i] || sum < (c->n + 1) * share))
            continue;
        c->length[c->n] = lengths[i];
        c->n_rows[c->n++] = i + 1;
    }
}

/* A bucket of the lengths after candidate i (-1: of all) up to candidate j. */
static int64_t cost(const candidates *c, int i, int j)
{
    return (c->n_rows[j] - (i < 0 ? 0 : c->n_rows[i])) * HR_MAX(c->length[j], 1);
}

/* before[k * n + j]: the last candidate of the bucket before the one that ends at j, with k buckets before it. */
static void cheapest(const candidates *c, int n_buckets, int64_t *best, int64_t *next, int16_t *before)
{
    for (int j = 0; j < c->n; j++) {
        best[j] = cost(c, -1, j);
        before[j] = -1;
    }
    for (int k = 1; k < n_buckets; k++) {
        for (int j = 0; j < c->n; j++) {
            next[j] = best[j];
            before[k * c->n + j] = -2; /* no further bucket pays */
            for (int i = 0; i < j; i++) {
                int64_t sum = best[i] + cost(c, i, j);

                if (sum < next[j]) {
                    next[j] = sum;
                    before[k * c->n + j] = (int16_t)i;
                }
            }
        }
        memcpy(best, next, (size_t)c->n * sizeof *best);
    }
}

hr_status hr__length_bounds(int64_t *lengths, int64_t n, int n_buckets, int64_t *bounds, int *n_bounds, hr_error *err)
{
    candidates c;
    int64_t *best;
    int16_t *before;
    int at = 0;

    *n_bounds = 0;
    if (n == 0)
        return HR_OK;
    qsort(lengths, (size_t)n, sizeof *lengths, compare);
    choose_candidates(lengths, n, &c);
    best = hr__alloc(NULL, (size_t)c.n * (2 * sizeof *best + (size_t)n_buckets * sizeof *before));
    if (!best)
        return hr__error_memory(err, "batch_by_length", (int64_t)c.n * n_buckets * (int64_t)sizeof *before);
    before = (int16_t *)(void *)(best + (ptrdiff_t)2 * c.n);
    cheapest(&c, n_buckets, best, best + c.n, before);
    for (int k = n_buckets - 1, j = c.n - 1; k >= 0 && j >= 0; k--) {
        int i = before[k * c.n + j];

        if (i == -2)
            continue;
        bounds[at++] = c.length[j];
        j = i;
    }
    for (int i = 0; i < at / 2; i++) {
        int64_t swap = bounds[i];

        bounds[i] = bounds[at - 1 - i];
        bounds[at - 1 - i] = swap;
    }
    *n_bounds = at;
    hr__free(best);
    return HR_OK;
}
