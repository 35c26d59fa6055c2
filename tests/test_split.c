/* test_split.c - ranks as threads: their rows, their waits, and their errors. */
#include "harness.h"

#include "feed/feed.h"
#include "op/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_RANKS 4
#define MAX_ROWS 4096

static hr_plan *plan_of_range(int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    assert_ok(hr_plan_range(n, "x", &p, &err), &err);
    return p;
}

/* Batches of rows of about one length: row i has length i. */
static hr_plan *plan_of_batches(int64_t n)
{
    static const int64_t buckets[] = { 100, 300 };
    const hr_length_options o = { .struct_bytes = sizeof o, .buckets = buckets, .n_buckets = 2 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *range = plan_of_range(n), *p = NULL;

    assert_ok(hr_plan_batch_by_length(range, "x", 2000, &o, &p, &err), &err);
    hr_plan_unref(range);
    return p;
}

static hr_split *split_of(hr_plan *p, int n_ranks, hr_split_tail tail)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .seed = 1 };
    hr_error err = HR_ERROR_INIT;
    hr_split *s = NULL;

    assert_ok(hr__split_new(p, n_ranks, tail, &o, &s, &err), &err);
    return s;
}

static void pause_ms(int64_t ms)
{
    hr_mutex m;
    hr_cond c;

    hr__mutex_init(&m);
    hr__cond_init(&c);
    hr__lock(&m);
    hr__cond_wait_ns(&c, &m, ms * 1000000);
    hr__unlock(&m);
    hr__cond_clear(&c);
    hr__mutex_clear(&m);
}

/* As a trainer does it: in slices. */
static hr_status begin(hr_split *s, int rank, const hr_split_request *q, hr_error *err)
{
    hr_status st;

    while ((st = hr__split_begin(s, rank, q, 20, err)) == HR_PENDING)
        ;
    return st;
}

static hr_status next(hr_split *s, int rank, hr_table **t, hr_error *err)
{
    hr_status st;

    while ((st = hr__split_next(s, rank, 0, 20, t, err)) == HR_PENDING)
        ;
    return st;
}

static int64_t value(const hr_table *t, int64_t row)
{
    hr_column_view v = { .struct_bytes = sizeof v };
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr_table_column_view(t, 0, &v, &err), &err);
    return ((const int64_t *)v.data)[row];
}

/* --- many ranks, each a thread */

typedef struct job {
    hr_split *split;
    hr_split_request request;
    int n_ranks, n_epochs, stop_after;
    bool stutter;
    int64_t rows[MAX_RANKS][MAX_ROWS];
    int64_t n_rows[MAX_RANKS];
    int n_batches[MAX_RANKS];
    int64_t sizes[MAX_RANKS][MAX_ROWS];
    atomic_int taken[MAX_RANKS];
    hr_status st[MAX_RANKS];
    hr_error err[MAX_RANKS];
} job;

static void check_lead(job *j, int rank)
{
    int mine = atomic_load(&j->taken[rank]) + 1;

    for (int r = 0; r < j->n_ranks && j->n_epochs == 1 && !j->stop_after; r++)
        assert_true(mine - atomic_load(&j->taken[r]) <=
                    HR_MAX(j->request.prefetch, HR_SMALL_AHEAD) + 2); /* one that it took and did not count yet */
}

static void rank_main(void *arg, int rank)
{
    job *j = arg;
    uint64_t random = (uint64_t)rank + 1;

    for (int e = 0; e < j->n_epochs && !j->st[rank]; e++) {
        j->st[rank] = begin(j->split, rank, &j->request, &j->err[rank]);
        while (!j->st[rank]) {
            hr_table *t = NULL;
            int64_t n;

            j->st[rank] = next(j->split, rank, &t, &j->err[rank]);
            if (j->st[rank] || !t)
                break;
            check_lead(j, rank);
            n = hr_table_rows(t);
            for (int64_t i = 0; i < n; i++)
                j->rows[rank][j->n_rows[rank]++] = value(t, i);
            j->sizes[rank][j->n_batches[rank]++] = n;
            hr_table_unref(t);
            atomic_fetch_add(&j->taken[rank], 1);
            if (j->stutter && random_below(&random, 4) == 0)
                pause_ms(random_below(&random, 3));
            if (j->stop_after && j->n_batches[rank] % j->stop_after == 0) {
                hr__split_leave(j->split, rank);
                break;
            }
        }
    }
}

static job *job_new(hr_split *s, int64_t batch, int n_epochs)
{
    job *j = calloc(1, sizeof *j);

    j->split = s;
    j->n_ranks = hr__split_n_ranks(s);
    j->n_epochs = n_epochs;
    j->request = (hr_split_request){ .batch_rows = batch, .prefetch = 2 };
    return j;
}

static void job_free(job *j)
{
    for (int r = 0; r < MAX_RANKS; r++)
        hr_error_clear(&j->err[r]);
    free(j);
}

/* What rank r gets of 0 .. n-1 by the rule, against what it got in epoch e. */
static void check_rank(const job *j, int r, int e, int64_t n, int64_t batch, hr_split_tail tail, bool drop)
{
    int64_t n_ranks = j->n_ranks, step = n_ranks * batch, full = n / step, rest = n % step, each = rest / n_ranks, at,
            want;
    int64_t per_epoch = j->n_rows[r] / j->n_epochs;

    assert_int_equal(j->n_rows[r] % j->n_epochs, 0);
    at = e * per_epoch;
    for (int64_t s = 0; s < full; s++)
        for (int64_t i = 0; i < batch; i++)
            assert_int_equal(j->rows[r][at++], (s * n_ranks + r) * batch + i);
    if (tail == HR_TAIL_PAD && !(drop && (rest + n_ranks - 1) / n_ranks < batch)) {
        want = (rest + n_ranks - 1) / n_ranks;
        for (int64_t i = 0; i < want; i++)
            assert_int_equal(j->rows[r][at++], full * step + (r * want + i) % rest);
    }
    if (tail == HR_TAIL_EQUAL && !drop)
        for (int64_t i = 0; i < each; i++)
            assert_int_equal(j->rows[r][at++], full * step + r * each + i);
    if (tail == HR_TAIL_UNEVEN) {
        want = HR_MAX(0, HR_MIN(batch, rest - r * batch));
        if (drop && want < batch)
            want = 0;
        for (int64_t i = 0; i < want; i++)
            assert_int_equal(j->rows[r][at++], full * step + r * batch + i);
    }
    assert_int_equal(at, (e + 1) * per_epoch);
}

static void shares(void **state)
{
    static const struct {
        int n_ranks;
        int64_t n, batch;
        hr_split_tail tail;
        bool drop;
        int64_t lost, padded;
    } cases[] = {
        { 3, 100, 4, HR_TAIL_PAD, false, 0, 2 },     { 3, 100, 4, HR_TAIL_PAD, true, 4, 0 },
        { 3, 107, 4, HR_TAIL_PAD, true, 0, 1 },      { 4, 3, 8, HR_TAIL_PAD, false, 0, 1 },
        { 4, 1, 8, HR_TAIL_PAD, false, 0, 3 },       { 4, 0, 8, HR_TAIL_PAD, false, 0, 0 },
        { 2, 200, 16, HR_TAIL_EQUAL, false, 0, 0 },  { 3, 100, 4, HR_TAIL_EQUAL, false, 1, 0 },
        { 3, 100, 4, HR_TAIL_EQUAL, true, 4, 0 },    { 1, 100, 7, HR_TAIL_EQUAL, false, 0, 0 },
        { 4, 3, 8, HR_TAIL_EQUAL, false, 3, 0 },     { 4, 1000, 1, HR_TAIL_EQUAL, false, 0, 0 },
        { 3, 0, 4, HR_TAIL_EQUAL, false, 0, 0 },     { 3, 100, 4, HR_TAIL_UNEVEN, false, 0, 0 },
        { 3, 107, 4, HR_TAIL_UNEVEN, true, 3, 0 },   { 2, 31, 16, HR_TAIL_EQUAL, false, 1, 0 },
        { 4, 1000, 64, HR_TAIL_EQUAL, false, 0, 0 },
    };
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++)
        for (int stutter = 0; stutter < 2; stutter++) {
            hr_plan *p = plan_of_range(cases[i].n);
            hr_split *s = split_of(p, cases[i].n_ranks, cases[i].tail);
            job *j = job_new(s, cases[i].batch, 1 + stutter);
            hr_error err = HR_ERROR_INIT;
            char *stats = NULL, want[64];

            j->stutter = stutter;
            j->request.drop_last = cases[i].drop;
            run_threads(cases[i].n_ranks, rank_main, j);
            for (int r = 0; r < cases[i].n_ranks; r++) {
                assert_ok(j->st[r], &j->err[r]);
                for (int e = 0; e < j->n_epochs; e++)
                    check_rank(j, r, e, cases[i].n, cases[i].batch, cases[i].tail, cases[i].drop);
            }
            assert_ok(hr__split_stats(s, &stats, &err), &err);
            snprintf(want, sizeof want, "\"dropped_rows\":%" PRId64 ",", cases[i].lost);
            assert_contains(stats, want);
            snprintf(want, sizeof want, "\"padded_rows\":%" PRId64 ",", cases[i].padded);
            assert_contains(stats, want);
            hr_string_free(stats);
            job_free(j);
            hr__split_unref(s);
            hr_plan_unref(p);
        }
    assert_no_leak(before);
}

/* All break off after some batches, and the next epoch begins at its start. */
static void leave(void **state)
{
    live_memory before = live_now();
    hr_plan *p = plan_of_range(1000);
    hr_split *s = split_of(p, 3, HR_TAIL_EQUAL);
    job *j = job_new(s, 10, 4);

    (void)state;
    j->stop_after = 3;
    j->stutter = true;
    run_threads(3, rank_main, j);
    for (int r = 0; r < 3; r++) {
        assert_ok(j->st[r], &j->err[r]);
        assert_int_equal(j->n_batches[r], 12);
        for (int b = 0; b < 12; b++)
            assert_int_equal(j->rows[r][b * 10], (b % 3 * 3 + r) * 10);
    }
    job_free(j);
    hr__split_unref(s);
    hr_plan_unref(p);
    assert_no_leak(before);
}

/* One leaves, the other gets all of its own share. */
static void one_leaves(void **state)
{
    const hr_split_request q = { .batch_rows = 10, .prefetch = 1 };
    hr_plan *p = plan_of_range(400);
    hr_split *s = split_of(p, 2, HR_TAIL_EQUAL);
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    int64_t n = 0;

    (void)state;
    assert_int_equal(hr__split_begin(s, 0, &q, 0, &err), HR_PENDING);
    assert_ok(begin(s, 1, &q, &err), &err);
    assert_ok(begin(s, 0, &q, &err), &err);
    assert_ok(next(s, 0, &t, &err), &err);
    hr_table_unref(t);
    hr__split_leave(s, 0);
    for (;; n++) {
        assert_ok(next(s, 1, &t, &err), &err);
        if (!t)
            break;
        assert_int_equal(value(t, 0), (2 * n + 1) * 10);
        hr_table_unref(t);
    }
    assert_int_equal(n, 20);
    hr__split_unref(s);
    hr_plan_unref(p);
}

/* The fast rank is held up `lead` steps before the slow one, and loses nothing. */
static void check_bound(int64_t batch_rows, int prefetch, int lead)
{
    const hr_split_request q = { .batch_rows = batch_rows, .prefetch = prefetch };
    hr_plan *p = plan_of_range(batch_rows * 50);
    hr_split *s = split_of(p, 2, HR_TAIL_EQUAL);
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;

    assert_int_equal(hr__split_begin(s, 0, &q, 0, &err), HR_PENDING);
    assert_ok(begin(s, 1, &q, &err), &err);
    assert_ok(begin(s, 0, &q, &err), &err);
    for (int n = 0; n < lead; n++) {
        assert_ok(next(s, 0, &t, &err), &err);
        assert_int_equal(value(t, 0), n * 2 * batch_rows);
        hr_table_unref(t);
    }
    assert_int_equal(hr__split_next(s, 0, 0, 100, &t, &err), HR_PENDING);
    assert_ok(next(s, 1, &t, &err), &err);
    hr_table_unref(t);
    assert_ok(next(s, 0, &t, &err), &err);
    assert_int_equal(value(t, 0), lead * 2 * batch_rows);
    hr_table_unref(t);
    hr__split_unref(s);
    hr_plan_unref(p);
}

static void lead_is_bounded(void **state)
{
    (void)state;
    check_bound(300000, 3, 4); /* 2.4 MB */
    check_bound(10, 0, 1);
}

/* Small batches go further ahead: otherwise each side waits for the other's thread at each batch. */
static void small_batches_lead(void **state)
{
    (void)state;
    check_bound(10, 1, HR_SMALL_AHEAD + 1);
    check_bound(65536, 1, 5); /* four of 524,288 bytes fit */
    check_bound(10, HR_SMALL_AHEAD + 1, HR_SMALL_AHEAD + 2);
}

static void ranks_disagree(void **state)
{
    const hr_split_request a = { .batch_rows = 10, .prefetch = 1 }, b = { .batch_rows = 20, .prefetch = 1 };
    hr_plan *p = plan_of_range(100);
    hr_split *s = split_of(p, 2, HR_TAIL_EQUAL);
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_int_equal(hr__split_begin(s, 0, &a, 0, &err), HR_PENDING);
    assert_status(begin(s, 1, &b, &err), HR_MISMATCH, &err);
    assert_contains(err.text, "rank 0: batch_size 10, drop_last no, prefetch 1; rank 1: batch_size 20");
    assert_status(begin(s, 0, &a, &err), HR_MISMATCH, &err);
    assert_int_equal(hr__split_begin(s, 0, &a, 0, &err), HR_PENDING); /* a second try */
    assert_ok(begin(s, 1, &a, &err), &err);
    assert_ok(begin(s, 0, &a, &err), &err);
    hr_error_clear(&err);
    hr__split_unref(s);
    hr_plan_unref(p);
}

/* A rank dies of the error that all ranks get. The others, which collect theirs later, heard only of the death. */
static void a_rank_dies_of_the_answer(void **state)
{
    const hr_split_request a = { .batch_rows = 10, .prefetch = 1 }, b = { .batch_rows = 20, .prefetch = 1 };
    hr_plan *p = plan_of_range(100);
    hr_split *s = split_of(p, 2, HR_TAIL_EQUAL);
    hr_error err = HR_ERROR_INIT, died = HR_ERROR_INIT;

    (void)state;
    assert_int_equal(hr__split_begin(s, 0, &a, 0, &err), HR_PENDING);
    assert_status(begin(s, 1, &b, &err), HR_MISMATCH, &err);
    hr_error_set(&died, HR_PEER, "its process died");
    hr__split_lost(s, 1, &died);
    assert_status(begin(s, 0, &a, &err), HR_MISMATCH, &err);
    assert_contains(err.text, "rank 0: batch_size 10, drop_last no, prefetch 1; rank 1: batch_size 20");
    assert_status(begin(s, 0, &a, &err), HR_PEER, &err);
    hr_error_clear(&err);
    hr_error_clear(&died);
    hr__split_unref(s);
    hr_plan_unref(p);
}

/* Rows of steps are counted in 64 bits. */
static void batches_too_large(void **state)
{
    static const int64_t sizes[] = { INT64_MAX, INT64_C(1) << 62, (INT64_C(1) << 40) + 1 };
    hr_split_request q = { 0 };
    hr_plan *p = plan_of_range(100);
    hr_split *s = split_of(p, 4, HR_TAIL_UNEVEN);
    hr_error err = HR_ERROR_INIT;
    char number[32];

    (void)state;
    for (int i = 0; i < HR_LEN(sizes); i++) {
        q.batch_rows = sizes[i];
        snprintf(number, sizeof number, "batch_size is %lld;", (long long)sizes[i]);
        assert_status(hr__split_begin(s, 0, &q, 0, &err), HR_INVALID, &err);
        assert_contains(err.text, number);
    }
    q.batch_rows = INT64_C(1) << 40; /* the most, and one step of it */
    for (int r = 0; r < 3; r++)
        assert_int_equal(hr__split_begin(s, r, &q, 0, &err), HR_PENDING);
    for (int r = 3; r >= 0; r--)
        assert_ok(begin(s, r, &q, &err), &err);
    for (int r = 0; r < 4; r++) {
        hr_table *t = NULL;

        assert_ok(next(s, r, &t, &err), &err);
        assert_int_equal(t ? hr_table_rows(t) : 0, r == 0 ? 100 : 0);
        hr_table_unref(t);
    }
    hr_error_clear(&err);
    hr__split_unref(s);
    hr_plan_unref(p);
}

static void a_rank_is_lost(void **state)
{
    const hr_split_request q = { .batch_rows = 10, .prefetch = 1 };

    (void)state;
    for (int with_error = 0; with_error < 2; with_error++) {
        hr_plan *p = plan_of_range(1000);
        hr_split *s = split_of(p, 2, HR_TAIL_EQUAL);
        hr_error err = HR_ERROR_INIT, why = HR_ERROR_INIT;
        hr_table *t = NULL;
        int64_t n = 0;

        assert_int_equal(hr__split_begin(s, 0, &q, 0, &err), HR_PENDING);
        assert_ok(begin(s, 1, &q, &err), &err);
        assert_ok(begin(s, 0, &q, &err), &err);
        hr_error_set(&why, HR_PEER, "ValueError: it broke");
        hr__split_lost(s, 1, with_error ? &why : NULL);
        if (with_error) {
            assert_status(next(s, 0, &t, &err), HR_PEER, &err);
            assert_string_equal(err.text, "rank 1: ValueError: it broke");
            assert_status(begin(s, 0, &q, &err), HR_PEER, &err);
        } else {
            for (int epoch = 0; epoch < 2; epoch++) {
                if (epoch)
                    assert_ok(begin(s, 0, &q, &err), &err);
                for (; !next(s, 0, &t, &err) && t; n++)
                    hr_table_unref(t);
            }
            assert_int_equal(n, 100);
        }
        hr_error_clear(&err);
        hr__split_unref(s);
        hr_plan_unref(p);
    }
}

static hr_status bad_at_500(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context;
    (void)state;
    if (value(in, hr_table_rows(in) - 1) >= 500) {
        hr_error_set(err, HR_CALLBACK, "ValueError: 500");
        hr_error_set_detail(err, "pickle", 6);
        return HR_CALLBACK;
    }
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

static void error_of_the_run(void **state)
{
    const hr_map_function fn = { .struct_bytes = sizeof fn, .name = "bad", .call = bad_at_500 };
    const hr_map_options o = { .struct_bytes = sizeof o, .batch_rows = 100, .one_to_one = true };
    live_memory before = live_now();
    hr_plan *p = plan_of_range(1000), *q = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_split *s;
    job *j;

    (void)state;
    assert_ok(hr_plan_map(p, &fn, &o, &q, &err), &err);
    s = split_of(q, 2, HR_TAIL_EQUAL);
    j = job_new(s, 50, 1);
    run_threads(2, rank_main, j);
    for (int r = 0; r < 2; r++) {
        assert_status(j->st[r], HR_CALLBACK, &j->err[r]);
        assert_contains(j->err[r].text, "ValueError: 500");
        assert_int_equal(j->err[r].detail_bytes, 6);
        assert_int_equal(j->n_rows[r], 250); /* all that came before */
    }
    job_free(j);
    hr__split_unref(s);
    hr_plan_unref(q);
    hr_plan_unref(p);
    assert_no_leak(before);
}

/* Each rank takes n more batches, by turns. */
static void take_steps(hr_split *s, int n, int64_t batch, int64_t *step)
{
    hr_error err = HR_ERROR_INIT;
    int n_ranks = hr__split_n_ranks(s);

    for (int i = 0; i < n; i++, (*step)++)
        for (int r = 0; r < n_ranks; r++) {
            hr_table *t = NULL;

            assert_ok(next(s, r, &t, &err), &err);
            assert_non_null(t);
            assert_int_equal(value(t, 0), (*step * n_ranks + r) * batch);
            hr_table_unref(t);
        }
}

static void begin_all(hr_split *s, const hr_split_request *q)
{
    hr_error err = HR_ERROR_INIT;
    int n = hr__split_n_ranks(s);

    for (int r = 0; r < n - 1; r++)
        assert_int_equal(hr__split_begin(s, r, q, 0, &err), HR_PENDING);
    for (int r = n - 1; r >= 0; r--)
        assert_ok(begin(s, r, q, &err), &err);
}

/* A rank dies of the run's error. The others hear the error, not of the death. */
static void a_rank_dies_of_the_run(void **state)
{
    const hr_map_function fn = { .struct_bytes = sizeof fn, .name = "bad", .call = bad_at_500 };
    const hr_map_options o = { .struct_bytes = sizeof o, .batch_rows = 100, .one_to_one = true };
    const hr_split_request request = { .batch_rows = 50, .prefetch = 1 };
    hr_plan *p = plan_of_range(1000), *q = NULL;
    hr_error err = HR_ERROR_INIT, died = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_status st = HR_OK;
    hr_split *s;

    (void)state;
    assert_ok(hr_plan_map(p, &fn, &o, &q, &err), &err);
    s = split_of(q, 2, HR_TAIL_EQUAL);
    begin_all(s, &request);
    for (int step = 0; !st && step < 10; step++)
        for (int r = 0; !st && r < 2; r++) {
            st = next(s, r, &t, &err);
            hr_table_unref(t);
        }
    assert_status(st, HR_CALLBACK, &err);
    hr_error_set(&died, HR_PEER, "its process died");
    hr__split_lost(s, 0, &died);
    assert_status(next(s, 1, &t, &err), HR_CALLBACK, &err);
    assert_contains(err.text, "ValueError: 500");
    hr_error_clear(&err);
    hr_error_clear(&died);
    hr__split_unref(s);
    hr_plan_unref(q);
    hr_plan_unref(p);
}

static void end_all(hr_split *s)
{
    hr_error err = HR_ERROR_INIT;

    for (int r = 0; r < hr__split_n_ranks(s); r++) {
        hr_table *t = NULL;

        assert_ok(next(s, r, &t, &err), &err);
        assert_null(t);
    }
}

static void positions(void **state)
{
    const hr_split_request q = { .batch_rows = 7, .prefetch = 2 };
    hr_plan *p = plan_of_range(7 * 3 * 20);
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int k = 0; k <= 20; k++) {
        hr_split *s = split_of(p, 3, HR_TAIL_EQUAL);
        hr_table *t = NULL;
        int64_t step = 0;
        char *at = NULL;

        begin_all(s, &q);
        take_steps(s, k, 7, &step);
        if (k == 20) /* makes sure that the end is known, to one rank */
            assert_int_equal(hr__split_next(s, 0, 0, 2000, &t, &err), HR_OK);
        assert_ok(hr__split_position(s, &at, &err), &err);
        hr__split_unref(s);
        s = split_of(p, 3, HR_TAIL_EQUAL);
        assert_ok(hr__split_restore(s, at, NULL, &err), &err);
        begin_all(s, &q);
        take_steps(s, 20 - k, 7, &step);
        end_all(s);
        begin_all(s, &q); /* the next epoch is a whole one */
        step = 0;
        take_steps(s, 20, 7, &step);
        end_all(s);
        hr_string_free(at);
        hr__split_unref(s);
    }
    hr_plan_unref(p);
}

/* The ranks are at different steps; the step that a rank has in its hands is given again. */
static void positions_of_done_steps(void **state)
{
    const hr_split_request q = { .batch_rows = 7, .prefetch = 2 };
    hr_plan *p = plan_of_range(7 * 3 * 20);
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int k = 0; k <= 20; k++) {
        hr_split *s = split_of(p, 3, HR_TAIL_EQUAL);
        hr_table *t = NULL;
        int64_t step = 0, done = HR_MAX(k - 1, 0);
        char *at = NULL;

        begin_all(s, &q);
        take_steps(s, k, 7, &step);
        assert_ok(hr__split_next(s, 1, 0, 2000, &t, &err), &err); /* one more, or the end */
        assert_int_equal(t != NULL, k < 20);
        hr_table_unref(t);
        assert_ok(hr__split_position_done(s, &at, &err), &err);
        hr__split_unref(s);
        s = split_of(p, 3, HR_TAIL_EQUAL);
        assert_ok(hr__split_restore(s, at, NULL, &err), &err);
        begin_all(s, &q);
        step = done;
        take_steps(s, 20 - (int)done, 7, &step);
        end_all(s);
        hr_string_free(at);
        assert_ok(hr__split_position_done(s, &at, &err), &err);
        assert_contains(at, "\"epoch\":1,");
        hr_string_free(at);
        hr__split_unref(s);
    }
    hr_plan_unref(p);
}

/* Under a launcher each rank asks at its own time: what the others have taken by then must not matter. */
static void positions_of_a_rank(void **state)
{
    const hr_split_request q = { .batch_rows = 10, .prefetch = 2 };
    hr_error err = HR_ERROR_INIT;
    int64_t step = 0;
    hr_table *t = NULL;
    char *a = NULL, *b = NULL;
    hr_plan *p = NULL;
    hr_split *s = NULL;

    (void)state;
    assert_ok(hr_plan_range(1000, "x", &p, &err), &err);
    assert_ok(hr__split_new(p, 2, HR_TAIL_EQUAL, NULL, &s, &err), &err);
    begin_all(s, &q);
    take_steps(s, 3, 10, &step);
    assert_ok(hr__split_position_of(s, 0, 0, &a, &err), &err);
    assert_ok(hr__split_position_of(s, 1, 0, &b, &err), &err);
    assert_string_equal(a, b);
    assert_contains(a, "\"rows\":60");
    hr_string_free(b);
    assert_ok(next(s, 0, &t, &err), &err); /* rank 0 alone is further */
    hr_table_unref(t);
    assert_ok(hr__split_position_of(s, 1, 0, &b, &err), &err);
    assert_contains(b, "\"rows\":60");
    hr_string_free(b);
    assert_ok(hr__split_position_of(s, 0, 0, &b, &err), &err);
    assert_contains(b, "\"rows\":80");
    hr_string_free(b);
    for (int rank = 0; rank < 2; rank++) { /* without the batch that its consumer has not used */
        assert_ok(hr__split_position_of(s, rank, 1, &b, &err), &err);
        assert_contains(b, rank ? "\"rows\":40" : "\"rows\":60");
        hr_string_free(b);
    }
    assert_status(hr__split_position_of(s, 1, 2, &b, &err), HR_INVALID, &err);
    assert_contains(err.text, "2 steps are taken ahead, and the last 1 of 3 are known");
    assert_status(hr__split_position_before(s, 1, &b, &err), HR_MISMATCH, &err);
    assert_ok(next(s, 1, &t, &err), &err);
    hr_table_unref(t);
    assert_ok(hr__split_position_before(s, 1, &b, &err), &err);
    assert_contains(b, "\"rows\":60");
    hr_string_free(b);
    assert_status(hr__split_position_of(s, 2, 0, &b, &err), HR_INVALID, &err);
    hr_string_free(a);
    hr__split_close(s);
    hr__split_unref(s);
    hr_plan_unref(p);
    hr_error_clear(&err);
}

/* The story: rank 1, which has no batch in the last step, stored the end of the epoch. When rank 0 was killed before
 * its last batch, nobody got that batch. */
static void position_of_a_rank_without_a_last_batch(void **state)
{
    const hr_split_request q = { .batch_rows = 20, .prefetch = 2 };
    hr_error err = HR_ERROR_INIT;
    int64_t step = 0;
    hr_table *t = NULL;
    char *at = NULL;
    hr_plan *p = NULL;
    hr_split *s = NULL;

    (void)state;
    assert_ok(hr_plan_range(50, "x", &p, &err), &err);
    s = split_of(p, 2, HR_TAIL_UNEVEN);
    begin_all(s, &q);
    take_steps(s, 1, 20, &step);
    assert_ok(next(s, 0, &t, &err), &err);
    assert_int_equal(hr_table_rows(t), 10);
    hr_table_unref(t);
    assert_ok(hr__split_position_of(s, 1, 0, &at, &err), &err);
    assert_contains(at, "\"rows\":40");
    hr_string_free(at);
    assert_ok(hr__split_position_of(s, 0, 0, &at, &err), &err);
    assert_contains(at, "\"rows\":50");
    hr_string_free(at);
    hr__split_close(s);
    hr__split_unref(s);
    hr_plan_unref(p);
    hr_error_clear(&err);
}

/* The story, found by feed_torture.py: after the last full step a position was that step until the split knew that no
 * step follows, then the end of the epoch. A resume with one rank got the rest of the rows or nothing, by chance. */
static void position_after_the_last_full_step(void **state)
{
    (void)state;
    for (int by_row = 0; by_row < 2; by_row++) {
        const hr_split_request q = {
            .batch_rows = by_row ? 1 : 4, .prefetch = 2, .drop_last = !by_row, .by_row = by_row
        };
        hr_error err = HR_ERROR_INIT;
        hr_plan *p = plan_of_range(by_row ? 17 : 21);
        hr_split *s = split_of(p, 2, HR_TAIL_EQUAL);
        char *early = NULL, *late = NULL;
        hr_table *t = NULL;
        int64_t n = 0;

        begin_all(s, &q);
        for (int64_t rows = 0; rows < 8; rows += n)
            for (int rank = 0; rank < 2; rank++) {
                assert_ok(next(s, rank, &t, &err), &err);
                n = hr_table_rows(t);
                hr__split_report_rows(s, rank, rows + n);
                hr_table_unref(t);
            }
        assert_ok(hr__split_position(s, &early, &err), &err);
        for (int rank = 0; rank < 2; rank++) { /* as the ring's server, which looks for batches to send ahead */
            hr_status st;

            while ((st = hr__split_next_ahead(s, rank, 20, &t, &err)) == HR_PENDING)
                ;
            assert_ok(st, &err);
            assert_null(t);
        }
        assert_ok(hr__split_position(s, &late, &err), &err);
        assert_string_equal(early, late);
        hr__split_close(s);
        hr__split_unref(s);

        s = split_of(p, 1, HR_TAIL_EQUAL);
        assert_ok(hr__split_restore(s, late, NULL, &err), &err);
        assert_ok(begin(s, 0, &q, &err), &err);
        assert_ok(next(s, 0, &t, &err), &err);
        assert_non_null(t);
        assert_int_equal(value(t, 0), 16);
        assert_int_equal(hr_table_rows(t), by_row ? 1 : 4);
        hr_table_unref(t);
        assert_ok(next(s, 0, &t, &err), &err);
        assert_null(t);
        hr_string_free(early);
        hr_string_free(late);
        hr__split_close(s);
        hr__split_unref(s);
        hr_plan_unref(p);
    }
}

/* Two of four ranks are on this host, whichever they are: the others' shares are dropped, and nobody waits. */
static void ranks_elsewhere(void **state)
{
    const hr_split_request q = { .batch_rows = 10, .prefetch = 2 };
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    char *text = NULL;
    hr_plan *p = NULL;
    hr_split *s = NULL;

    (void)state;
    assert_ok(hr_plan_range(80, "x", &p, &err), &err);
    assert_ok(hr__split_new(p, 4, HR_TAIL_EQUAL, NULL, &s, &err), &err);
    hr__split_expect(s, 2);
    hr__split_join(s, 3, 77);
    assert_int_equal(hr__split_begin(s, 1, &q, 0, &err), HR_PENDING);
    assert_ok(hr__split_describe_ranks(s, &text, &err), &err);
    assert_contains(text, "{\"state\":\"elsewhere\",\"pid\":0,");
    assert_contains(text, "{\"state\":\"asked\",");
    assert_contains(text, "{\"state\":\"out\",\"pid\":77,");
    hr_string_free(text);
    assert_ok(hr__split_begin(s, 3, &q, -1, &err), &err);
    assert_ok(hr__split_begin(s, 1, &q, -1, &err), &err);
    for (int step = 0; step < 2; step++)
        for (int rank = 1; rank < 4; rank += 2) {
            hr_column_view v = { .struct_bytes = sizeof v };

            assert_ok(hr__split_next(s, rank, 0, -1, &t, &err), &err);
            assert_ok(hr_table_column_view(t, 0, &v, &err), &err);
            assert_int_equal(((const int64_t *)v.data)[0], (step * 4 + rank) * 10);
            hr_table_unref(t);
        }
    for (int rank = 1; rank < 4; rank += 2) {
        assert_ok(hr__split_next(s, rank, 0, -1, &t, &err), &err);
        assert_null(t);
    }
    hr__split_close(s);
    hr__split_unref(s);
    hr_plan_unref(p);
    hr_error_clear(&err);
}

static void positions_between_epochs(void **state)
{
    const hr_split_request q = { .batch_rows = 10, .prefetch = 2 };
    hr_plan *p = plan_of_range(60);
    hr_split *s = split_of(p, 2, HR_TAIL_EQUAL);
    hr_error err = HR_ERROR_INIT;
    char *at = NULL, *again = NULL;
    int64_t step = 0;

    (void)state;
    assert_ok(hr__split_position(s, &at, &err), &err);
    assert_contains(at, "\"epoch\":0,");
    hr_string_free(at);
    begin_all(s, &q);
    take_steps(s, 3, 10, &step);
    end_all(s);
    assert_ok(hr__split_position(s, &at, &err), &err);
    assert_contains(at, "\"epoch\":1,");
    hr__split_unref(s);
    s = split_of(p, 2, HR_TAIL_EQUAL);
    assert_ok(hr__split_restore(s, at, NULL, &err), &err);
    assert_ok(hr__split_position(s, &again, &err), &err);
    assert_string_equal(at, again);
    begin_all(s, &q);
    step = 0;
    take_steps(s, 3, 10, &step);
    end_all(s);
    hr_string_free(at);
    hr_string_free(again);
    hr__split_unref(s);
    hr_plan_unref(p);
}

static void positions_that_differ(void **state)
{
    const hr_split_request q = { .batch_rows = 10, .prefetch = 2 }, other = { .batch_rows = 20, .prefetch = 2 };
    hr_plan *p = plan_of_range(600);
    hr_split *s = split_of(p, 2, HR_TAIL_EQUAL);
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    char *at = NULL;
    int64_t step = 0;

    (void)state;
    begin_all(s, &q);
    take_steps(s, 3, 10, &step);
    assert_ok(hr__split_position(s, &at, &err), &err);
    assert_status(hr__split_restore(s, at, NULL, &err), HR_INVALID, &err);
    assert_contains(err.text, "an epoch is running");
    assert_ok(next(s, 1, &t, &err), &err);
    hr_table_unref(t);
    hr_string_free(at);
    assert_status(hr__split_position(s, &at, &err), HR_MISMATCH, &err);
    assert_contains(err.text, "rank 0 has taken 3, rank 1 4");
    assert_null(at);
    assert_ok(next(s, 0, &t, &err), &err);
    hr_table_unref(t);
    assert_ok(hr__split_position(s, &at, &err), &err);
    hr__split_unref(s);
    s = split_of(p, 2, HR_TAIL_EQUAL);
    assert_ok(hr__split_restore(s, at, NULL, &err), &err);
    assert_int_equal(hr__split_begin(s, 0, &other, 0, &err), HR_PENDING);
    assert_status(begin(s, 1, &other, &err), HR_MISMATCH, &err);
    assert_contains(err.text, "batches of 10 rows, this feed makes 20");
    hr_error_clear(&err);
    hr_string_free(at);
    hr__split_unref(s);
    hr_plan_unref(p);
}

/* --- closing while ranks wait */

static void waiting_rank(void *arg, int rank)
{
    job *j = arg;

    if (rank == 0) {
        pause_ms(60);
        hr__split_close(j->split);
        return;
    }
    j->st[rank] = begin(j->split, rank - 1, &j->request, &j->err[rank]); /* one of three never asks */
}

static void closed_while_waiting(void **state)
{
    live_memory before = live_now();
    hr_plan *p = plan_of_range(100);
    hr_split *s = split_of(p, 3, HR_TAIL_EQUAL);
    job *j = job_new(s, 10, 1);

    (void)state;
    run_threads(3, waiting_rank, j);
    assert_status(j->st[1], HR_CANCELLED, &j->err[1]);
    assert_status(j->st[2], HR_CANCELLED, &j->err[2]);
    job_free(j);
    hr__split_unref(s);
    hr_plan_unref(p);
    assert_no_leak(before);
}

static void chaos_rank(void *arg, int rank)
{
    job *j = arg;
    uint64_t random = (uint64_t)rank * 977 + (uint64_t)j->stop_after;

    for (int i = 0; i < 40; i++) {
        hr_table *t = NULL;
        char *text = NULL;

        switch (random_below(&random, 8)) {
        case 0: hr__split_leave(j->split, rank); break;
        case 1:
            if (!hr__split_position(j->split, &text, NULL))
                hr_string_free(text);
            break;
        case 2:
            if (!hr__split_stats(j->split, &text, NULL))
                hr_string_free(text);
            break;
        case 3: (void)!hr__split_begin(j->split, rank, &j->request, 5, NULL); break;
        default:
            if (!hr__split_next(j->split, rank, 0, 5, &t, NULL))
                hr_table_unref(t);
            break;
        }
    }
    if (random_below(&random, 3) == 0)
        hr__split_lost(j->split, rank, NULL);
    if (rank == 0)
        hr__split_close(j->split);
}

/* Any call at any time: nothing hangs, crashes or leaks. */
static void chaos(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int round = 0; round < 12; round++) {
        hr_plan *p = plan_of_range(500);
        hr_split *s = split_of(p, 4, round % 2 ? HR_TAIL_EQUAL : HR_TAIL_UNEVEN);
        job *j = job_new(s, 10, 1);

        j->stop_after = round;
        run_threads(4, chaos_rank, j);
        job_free(j);
        hr__split_unref(s);
        hr_plan_unref(p);
    }
    assert_no_leak(before);
}

/* The same with batches of any size. */
static void chaos_by_table(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int round = 0; round < 9; round++) {
        hr_plan *p = plan_of_batches(600);
        hr_split *s = split_of(p, 4, (hr_split_tail)(round % 3));
        job *j = job_new(s, 0, 1);

        j->stop_after = round;
        run_threads(4, chaos_rank, j);
        job_free(j);
        hr__split_unref(s);
        hr_plan_unref(p);
    }
    assert_no_leak(before);
}

/* The first values and the sizes of the plan's batches. -> their number. */
static int batches_of(hr_plan *p, int64_t *first, int64_t *sizes)
{
    const hr_feed_options o = { .struct_bytes = sizeof o, .seed = 1 };
    hr_error err = HR_ERROR_INIT;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    int n = 0;

    assert_ok(hr_feed_open(p, &o, &f, &err), &err);
    for (;;) {
        assert_ok(hr_feed_next(f, &t, &err), &err);
        if (!t)
            break;
        first[n] = value(t, 0);
        sizes[n++] = hr_table_rows(t);
        hr_table_unref(t);
    }
    hr_feed_close(f);
    return n;
}

/* Each rank gets whole batches of the plan, in turn, in each epoch. */
static void by_table(void **state)
{
    int64_t first[200], sizes[200];
    live_memory before = live_now();

    (void)state;
    for (int round = 0; round < 12; round++) {
        int n_ranks = 1 + round % 4, per_epoch;
        hr_split_tail tail = (hr_split_tail)(round / 4);
        hr_plan *p = plan_of_batches(600);
        int n = batches_of(p, first, sizes);
        hr_split *s = split_of(p, n_ranks, tail);
        job *j = job_new(s, 0, 2);

        j->stutter = round % 2;
        run_threads(n_ranks, rank_main, j);
        for (int r = 0; r < n_ranks; r++) {
            int64_t at = 0;

            assert_ok(j->st[r], &j->err[r]);
            per_epoch =
                n / n_ranks + (n % n_ranks && (tail == HR_TAIL_PAD || (tail == HR_TAIL_UNEVEN && r < n % n_ranks)));
            assert_int_equal(j->n_batches[r], 2 * per_epoch);
            for (int i = 0; i < j->n_batches[r]; at += j->sizes[r][i++]) {
                int k = i % per_epoch * n_ranks + r;

                k = k < n ? k : n - n % n_ranks + (k - n) % (n % n_ranks); /* HR_TAIL_PAD: the first of the rest */
                assert_int_equal(j->sizes[r][i], sizes[k]);
                assert_int_equal(j->rows[r][at], first[k]);
            }
        }
        job_free(j);
        hr__split_unref(s);
        hr_plan_unref(p);
    }
    assert_no_leak(before);
}

static void wrong_arguments(void **state)
{
    const hr_split_request q = { .batch_rows = -1 };
    hr_plan *p = plan_of_range(10);
    hr_error err = HR_ERROR_INIT;
    hr_split *s = NULL;
    hr_table *t = NULL;

    (void)state;
    assert_status(hr__split_new(p, 0, HR_TAIL_EQUAL, NULL, &s, &err), HR_INVALID, &err);
    assert_status(hr__split_new(p, 2, (hr_split_tail)7, NULL, &s, &err), HR_INVALID, &err);
    s = split_of(p, 2, HR_TAIL_EQUAL);
    assert_status(hr__split_begin(s, 0, &q, 0, &err), HR_INVALID, &err);
    assert_status(hr__split_next(s, 2, 0, 0, &t, &err), HR_INVALID, &err);
    assert_status(hr__split_next(s, 1, 0, 0, &t, &err), HR_INVALID, &err);
    hr_error_clear(&err);
    hr__split_unref(s);
    hr_plan_unref(p);
}

/* One rank, so that everything happens on this thread and the run's. */
static hr_status one_rank(hr_error *err)
{
    const hr_split_request q = { .batch_rows = 8, .prefetch = 1 };
    hr_status st = HR_OK;
    hr_plan *p = NULL;
    hr_split *s = NULL;
    hr_table *t = NULL;
    char *at = NULL;

    HR_GO(hr_plan_range(20, "x", &p, err));
    HR_GO(hr__split_new(p, 1, HR_TAIL_EQUAL, NULL, &s, err));
    HR_GO(begin(s, 0, &q, err));
    do {
        hr_table_unref(t);
        t = NULL;
        HR_GO(next(s, 0, &t, err));
        hr_string_free(at);
        at = NULL;
        HR_GO(hr__split_position(s, &at, err));
    } while (t);
    HR_GO(hr__split_restore(s, at, NULL, err));
done:
    hr_string_free(at);
    hr_table_unref(t);
    hr__split_unref(s);
    hr_plan_unref(p);
    return st;
}

static void faults(void **state)
{
    (void)state;
    run_with_faults(one_rank, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares),
        cmocka_unit_test(leave),
        cmocka_unit_test(one_leaves),
        cmocka_unit_test(lead_is_bounded),
        cmocka_unit_test(small_batches_lead),
        cmocka_unit_test(ranks_disagree),
        cmocka_unit_test(a_rank_dies_of_the_answer),
        cmocka_unit_test(batches_too_large),
        cmocka_unit_test(a_rank_is_lost),
        cmocka_unit_test(error_of_the_run),
        cmocka_unit_test(a_rank_dies_of_the_run),
        cmocka_unit_test(positions),
        cmocka_unit_test(positions_of_done_steps),
        cmocka_unit_test(positions_of_a_rank),
        cmocka_unit_test(position_of_a_rank_without_a_last_batch),
        cmocka_unit_test(position_after_the_last_full_step),
        cmocka_unit_test(ranks_elsewhere),
        cmocka_unit_test(positions_between_epochs),
        cmocka_unit_test(positions_that_differ),
        cmocka_unit_test(closed_while_waiting),
        cmocka_unit_test(chaos),
        cmocka_unit_test(chaos_by_table),
        cmocka_unit_test(by_table),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
