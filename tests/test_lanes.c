/* test_lanes.c - lanes: the order of rows, ranges of a scan, and hosts that read their lanes alone. */
#include "harness.h"

#include "feed/feed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_ROWS 100000

typedef struct rows {
    int64_t *x;
    int64_t n, cap;
} rows;

static void add(rows *r, int64_t x)
{
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 16;
        r->x = realloc(r->x, (size_t)r->cap * sizeof *r->x);
    }
    r->x[r->n++] = x;
}

static rows *rows_new(int n) { return calloc((size_t)n, sizeof(rows)); }

static void rows_clear(rows *r, int n)
{
    for (int i = 0; i < n; i++)
        free(r[i].x);
    memset(r, 0, (size_t)n * sizeof *r);
}

static void rows_free(rows *r, int n)
{
    rows_clear(r, n);
    free(r);
}

static hr_plan *range(int64_t n, int64_t n_blocks)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    assert_ok(hr__plan_range(n, n_blocks, "x", &p, &err), &err);
    return p;
}

static void add_table(rows *out, const hr_table *t)
{
    hr_column_view v = { .struct_bytes = sizeof v };
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr_table_column_view(t, 0, &v, &err), &err);
    for (int64_t i = 0; i < hr_table_rows(t); i++)
        add(out, ((const int64_t *)v.data)[i]);
}

/* Runs p to its end; returns the rows that its readers gave. */
static int64_t run(hr_plan *p, rows *out)
{
    hr_error err = HR_ERROR_INIT;
    hr_run_counts c = { 0 };
    hr_run_options o = { .seed = 1, .prefetch = 2 };
    hr_run *r = NULL;
    hr_table *t = NULL;

    assert_ok(hr__run_start(p, &o, &r, &err), &err);
    do {
        assert_ok(hr__run_next(r, -1, &t, NULL, &err), &err);
        if (t)
            add_table(out, t);
        hr_table_unref(t);
    } while (t);
    hr__run_counts(r, &c);
    hr__run_close(r);
    return c.rows_read;
}

static void lanes_of(hr_plan *p, const hr_lane_order *o, const hr_lane_part *part, rows *out)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *lanes = NULL;

    assert_ok(hr__plan_lanes(p, o, part, &lanes, &err), &err);
    run(lanes, out);
    hr_plan_unref(lanes);
}

/* The order by its definition. */
static void reference(const hr_lane_order *o, int64_t first, rows *out)
{
    int64_t full = o->n_rows / o->n_lanes / o->batch_rows;

    out->n = 0;
    for (int64_t k = 0; k < full; k++)
        for (int64_t l = 0; l < o->n_lanes; l++)
            for (int64_t i = 0; i < o->batch_rows; i++)
                add(out, first + o->n_rows * l / o->n_lanes + k * o->batch_rows + i);
    for (int64_t l = 0; l < o->n_lanes; l++)
        for (int64_t r = o->n_rows * l / o->n_lanes + full * o->batch_rows; r < o->n_rows * (l + 1) / o->n_lanes; r++)
            add(out, first + r);
}

static void assert_same(const rows *a, int64_t from, const rows *b)
{
    assert_int_equal(a->n - from, b->n);
    for (int64_t i = 0; i < b->n; i++)
        assert_int_equal(a->x[from + i], b->x[i]);
}

static void test_order(void **state)
{
    static const hr_lane_order orders[] = {
        { 1, 10, 3 }, { 3, 20, 2 }, { 4, 3, 2 }, { 12, 10007, 16 }, { 5, 40000, 7 }
    };
    rows *want = rows_new(1), *got = rows_new(1);

    (void)state;
    for (int i = 0; i < HR_LEN(orders); i++) {
        const hr_lane_order *o = &orders[i];
        int64_t n = hr__lane_turns(o), rest = o->n_rows - n * o->batch_rows;
        hr_plan *p = range(o->n_rows, 7);

        reference(o, 0, want);
        for (int64_t turn = 0; turn <= n; turn += HR_MAX(1, n / 5)) { /* from any turn on */
            got->n = 0;
            lanes_of(p, o, &(hr_lane_part){ .first = turn, .step = 1, .n = n - turn, .rest = true }, got);
            assert_same(want, turn * o->batch_rows, got);
        }
        for (int64_t skip = 0; skip <= rest; skip += HR_MAX(1, rest / 3)) { /* after all turns */
            got->n = 0;
            lanes_of(p, o, &(hr_lane_part){ .first = n, .step = 1, .rest = true, .skip_rest = skip }, got);
            assert_same(want, n * o->batch_rows + skip, got);
        }
        hr_plan_unref(p);
    }
    rows_free(want, 1);
    rows_free(got, 1);
}

/* A slice becomes part of the range; batches of an operator count from the lane's start. */
static void test_operators_in_lanes(void **state)
{
    const hr_lane_order o = { 3, 9000, 10 };
    rows *want = rows_new(1), *got = rows_new(1);
    hr_error err = HR_ERROR_INIT;
    hr_plan *all = range(20000, 3), *some = NULL, *batches = NULL;
    int64_t n;

    (void)state;
    assert_ok(hr_plan_slice(all, 500, 9500, &some, &err), &err);
    assert_ok(hr_plan_rebatch(some, 37, false, &batches, &err), &err);
    assert_ok(hr__plan_lane_rows(batches, &n, &err), &err);
    assert_int_equal(n, 9000);
    reference(&o, 500, want);
    for (int64_t turn = 0; turn < hr__lane_turns(&o); turn += 97) {
        got->n = 0;
        lanes_of(batches, &o, &(hr_lane_part){ .first = turn, .step = 1, .n = hr__lane_turns(&o) - turn, .rest = true },
                 got);
        assert_same(want, turn * 10, got);
    }
    hr_plan_unref(batches);
    hr_plan_unref(some);
    hr_plan_unref(all);
    rows_free(want, 1);
    rows_free(got, 1);
}

/* A source with fewer rows than it promised is an error: other hosts have counted with them. */
static void test_missing_rows(void **state)
{
    const hr_lane_order o = { 3, 100, 4 };
    const hr_lane_part part = { .step = 1, .n = hr__lane_turns(&o), .rest = true };
    hr_run_options options = { .prefetch = 2 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = range(90, 2), *lanes = NULL;
    hr_table *t = NULL;
    hr_run *r = NULL;
    hr_status st;

    (void)state;
    assert_ok(hr__plan_lanes(p, &o, &part, &lanes, &err), &err);
    assert_ok(hr__run_start(lanes, &options, &r, &err), &err);
    do {
        hr_table_unref(t);
        st = hr__run_next(r, -1, &t, NULL, &err);
    } while (!st && t);
    assert_int_equal(st, HR_MISMATCH);
    assert_non_null(strstr(err.text, "lane 2 of 3 has 24 rows, and its files promise 34"));
    hr_error_clear(&err);
    hr__run_close(r);
    hr_plan_unref(lanes);
    hr_plan_unref(p);
}

/* A local shuffle within each lane: all rows once, another order, and the same order from any turn on. */
static void test_local_shuffle(void **state)
{
    const hr_lane_order o = { 2, 90001, 100 };
    int64_t n = hr__lane_turns(&o), moved = 0;
    rows *want = rows_new(1), *got = rows_new(1);
    char *seen = calloc(1, MAX_ROWS);
    hr_error err = HR_ERROR_INIT;
    hr_plan *all = range(90001, 1), *mixed = NULL;

    (void)state;
    assert_ok(hr_plan_local_shuffle(all, 1000, NULL, &mixed, &err), &err);
    lanes_of(mixed, &o, &(hr_lane_part){ .step = 1, .n = n, .rest = true }, want);
    assert_int_equal(want->n, 90001);
    for (int64_t i = 0; i < want->n; i++) {
        assert_false(seen[want->x[i]]++);
        moved += want->x[i] != i;
    }
    assert_true(moved > 80000);
    for (int64_t turn = 1; turn < n; turn += 61) {
        got->n = 0;
        lanes_of(mixed, &o, &(hr_lane_part){ .first = turn, .step = 1, .n = n - turn, .rest = true }, got);
        assert_same(want, turn * 100, got);
    }
    hr_plan_unref(mixed);
    hr_plan_unref(all);
    rows_free(want, 1);
    rows_free(got, 1);
    free(seen);
}

static void test_plans_without_lanes(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *all = range(100, 1), *both[2] = { all, all }, *p = NULL;
    int64_t n;

    (void)state;
    assert_null(hr__plan_no_lanes(all));
    assert_ok(hr_plan_union(both, 2, &p, &err), &err);
    assert_ptr_equal(hr__plan_no_lanes(p), p);
    hr_plan_unref(p);
    assert_ok(hr_plan_random_shuffle(all, NULL, &p, &err), &err);
    assert_ptr_equal(hr__plan_no_lanes(p), p);
    assert_ok(hr__plan_lane_rows(p, &n, &err), &err);
    assert_int_equal(n, -1);
    hr_plan_unref(p);
    assert_ok(hr_plan_rebatch(all, 7, true, &p, &err), &err);
    assert_ptr_equal(hr__plan_no_lanes(p), p);
    hr_plan_unref(p);
    hr_plan_unref(all);
}

/* --- hosts: each has a split of its own, with its own ranks */

typedef struct host {
    hr_split *split;
    int n_ranks, first, step, n; /* its ranks: n from `first` on */
} host;

static host host_new(hr_plan *p, int n_ranks, hr_split_tail tail, int n_lanes, int n_hosts, int k, bool in_turn)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .seed = 1 };
    hr_error err = HR_ERROR_INIT;
    int n = n_ranks / n_hosts;
    host h = { .n_ranks = n_ranks, .first = in_turn ? k : k * n, .step = in_turn ? n_hosts : 1, .n = n };

    assert_ok(hr__split_new(p, n_ranks, tail, &o, &h.split, &err), &err);
    assert_ok(hr__split_lanes(h.split, n_lanes, n_hosts, &err), &err);
    hr__split_expect(h.split, n);
    for (int i = 0; i < n; i++)
        hr__split_join(h.split, h.first + i * h.step, 1);
    return h;
}

/* Reads up to n_steps of an epoch on all ranks of the host; returns their number. Of each step and rank: rows in
 * steps[s * n_ranks + r]. */
static int read_host(host *h, int64_t batch, int n_steps, rows *steps, char **position, int64_t *n_read)
{
    hr_split_request q = { .batch_rows = batch };
    hr_error err = HR_ERROR_INIT;
    int n_full = 0, ends = 0;
    char *stats = NULL;

    for (int i = 0; i < h->n; i++) {
        hr_status st = hr__split_begin(h->split, h->first + i * h->step, &q, 0, &err);

        assert_int_equal(st, i < h->n - 1 ? HR_PENDING : HR_OK);
    }
    for (int i = 0; i < h->n - 1; i++)
        assert_ok(hr__split_begin(h->split, h->first + i * h->step, &q, -1, &err), &err);
    for (int s = 0; s < n_steps && !ends; s++)
        for (int i = 0; i < h->n; i++) {
            int r = h->first + i * h->step;
            hr_table *t = NULL;

            assert_ok(hr__split_next(h->split, r, 0, -1, &t, &err), &err);
            if (t)
                add_table(&steps[s * h->n_ranks + r], t);
            n_full = t ? s + 1 : n_full;
            ends += !t;
            hr_table_unref(t);
        }
    if (position && !ends)
        assert_ok(hr__split_position_of(h->split, h->first, 0, position, &err), &err);
    if (n_read) {
        const char *at;

        assert_ok(hr__split_stats(h->split, &stats, &err), &err);
        at = strstr(stats, "\"lanes\":{");
        *n_read = at ? strtoll(strstr(at, "rows_read\":") + 11, NULL, 10) : -1;
        hr_string_free(stats);
    }
    for (int i = 0; i < h->n; i++)
        hr__split_leave(h->split, h->first + i * h->step);
    return n_full;
}

static void host_clear(host *h)
{
    hr__split_close(h->split);
    hr__split_unref(h->split);
}

#define MAX_STEPS 64
static int by_value(const void *a, const void *b)
{
    return (*(const int64_t *)a > *(const int64_t *)b) - (*(const int64_t *)a < *(const int64_t *)b);
}

/* The rows of each step of all ranks, sorted; in steps[s * n_ranks]. */
static void join_steps(rows *steps, int n_steps, int n_ranks)
{
    for (int s = 0; s < n_steps; s++) {
        rows *all = &steps[s * n_ranks];

        for (int r = 1; r < n_ranks; r++)
            for (int64_t i = 0; i < steps[s * n_ranks + r].n; i++)
                add(all, steps[s * n_ranks + r].x[i]);
        qsort(all->x, (size_t)all->n, sizeof(int64_t), by_value);
    }
}

/* Every number of hosts gives the same steps, reads its lanes alone, and goes on where another one stopped. */
static void hosts_agree(int n_ranks, int64_t n_rows, int64_t batch, hr_split_tail tail, bool in_turn)
{
    static const int hosts[] = { 1, 2, 3, 4, 6 };
    const int n_all = MAX_STEPS * n_ranks;
    rows *want = NULL, *steps = rows_new(n_all);
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = range(n_rows, 20);
    int n_steps = 0;
    char *position = NULL;

    for (int i = 0; i < HR_LEN(hosts); i++) {
        int n = 0, k_hosts = hosts[i];

        if (n_ranks % k_hosts)
            continue;
        rows_clear(steps, n_all);
        for (int k = 0; k < k_hosts; k++) {
            host h = host_new(p, n_ranks, tail, 12, k_hosts, k, in_turn);
            int64_t n_read = 0;
            int n_here = read_host(&h, batch, MAX_STEPS, steps, NULL, &n_read);

            assert_true(k == 0 || n_here == n || tail == HR_TAIL_UNEVEN);
            n = HR_MAX(n, n_here);
            assert_in_range(n_read, 1, n_rows / k_hosts + 2 * (12 + n_ranks) * batch);
            host_clear(&h);
        }
        join_steps(steps, n, n_ranks);
        assert_true(!want || n == n_steps);
        if (!want) {
            want = steps;
            steps = rows_new(n_all);
            n_steps = n;
            continue;
        }
        for (int s = 0; s < n_steps; s++)
            assert_same(&want[s * n_ranks], 0, &steps[s * n_ranks]);
    }
    for (int i = 0; i < HR_LEN(hosts); i++) { /* stops after two steps on some hosts, goes on on others */
        int n = 0, k_hosts = hosts[i], before = hosts[(i + 2) % HR_LEN(hosts)];

        if (n_ranks % k_hosts || n_ranks % before || n_steps < 3)
            continue;
        rows_clear(steps, n_all);
        for (int k = 0; k < before; k++) {
            host h = host_new(p, n_ranks, tail, 12, before, k, in_turn);
            char *own = NULL;

            read_host(&h, batch, 2, steps, &own, NULL);
            assert_true(!position || !strcmp(position, own)); /* every host has the same position */
            hr_string_free(position);
            position = own;
            host_clear(&h);
        }
        for (int k = 0; k < k_hosts; k++) {
            int n_here;
            host h = host_new(p, n_ranks, tail, k_hosts, k_hosts, k, in_turn); /* other lanes: the position's hold */

            assert_ok(hr__split_restore(h.split, position, NULL, &err), &err);
            n_here = read_host(&h, batch, MAX_STEPS, steps + (ptrdiff_t)2 * n_ranks, NULL, NULL);
            n = HR_MAX(n, n_here);
            host_clear(&h);
        }
        assert_int_equal(n + 2, n_steps);
        join_steps(steps, n_steps, n_ranks);
        for (int s = 0; s < n_steps; s++)
            assert_same(&want[s * n_ranks], 0, &steps[s * n_ranks]);
        hr_string_free(position);
        position = NULL;
    }
    rows_free(want, n_all);
    rows_free(steps, n_all);
    hr_plan_unref(p);
}

static void test_hosts(void **state)
{
    (void)state;
    hosts_agree(12, 9001, 16, HR_TAIL_EQUAL, false);
    hosts_agree(6, 2003, 16, HR_TAIL_PAD, true);
    hosts_agree(4, 3000, 17, HR_TAIL_UNEVEN, false);
    hosts_agree(12, 150, 4, HR_TAIL_EQUAL, false); /* fewer rows than batches of all lanes */
    hosts_agree(12, 7, 4, HR_TAIL_PAD, false);     /* fewer rows than ranks */
}

/* 5 hosts cannot share 12 lanes: each reads all, and the order stays. Ranks without a plain numbering are an error. */
static void test_other_hosts(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_split_request q = { .batch_rows = 20 };
    hr_plan *p = range(3001, 4);
    rows *one = rows_new(MAX_STEPS * 5), *five = rows_new(MAX_STEPS * 5);
    host h = host_new(p, 5, HR_TAIL_EQUAL, 12, 1, 0, false);
    int n;

    (void)state;
    n = read_host(&h, 20, MAX_STEPS, one, NULL, NULL);
    host_clear(&h);
    for (int k = 0; k < 5; k++) {
        h = host_new(p, 5, HR_TAIL_EQUAL, 12, 5, k, false);
        assert_int_equal(read_host(&h, 20, MAX_STEPS, five, NULL, NULL), n);
        host_clear(&h);
    }
    join_steps(one, n, 5);
    join_steps(five, n, 5);
    for (int s = 0; s < n; s++)
        assert_same(&one[s * 5], 0, &five[s * 5]);
    h = host_new(p, 6, HR_TAIL_EQUAL, 12, 3, 0, false);
    hr__split_close(h.split);
    hr__split_unref(h.split);
    assert_ok(hr__split_new(p, 6, HR_TAIL_EQUAL, NULL, &h.split, &err), &err);
    assert_ok(hr__split_lanes(h.split, 12, 3, &err), &err);
    hr__split_expect(h.split, 2);
    hr__split_join(h.split, 1, 1);
    hr__split_join(h.split, 2, 1);
    assert_int_equal(hr__split_begin(h.split, 1, &q, 0, &err), HR_PENDING);
    assert_int_equal(hr__split_begin(h.split, 2, &q, -1, &err), HR_INVALID);
    assert_non_null(strstr(err.text, "6 ranks on 3 hosts"));
    hr_error_clear(&err);
    host_clear(&h);
    rows_free(one, MAX_STEPS * 5);
    rows_free(five, MAX_STEPS * 5);
    hr_plan_unref(p);
}

/* One of two hosts, to the end of an epoch: both runs of a feed, with a local shuffle in each lane. */
static hr_status one_host(hr_error *err)
{
    hr_split_request q = { .batch_rows = 8, .shuffle_rows = 16, .own_memory = true };
    hr_feed_options o = { .struct_bytes = sizeof o, .seed = 1, .num_threads = 1 };
    hr_status st = HR_OK;
    hr_plan *p = NULL, *some = NULL;
    hr_split *s = NULL;
    hr_table *t = NULL;
    char *text = NULL;

    HR_GO(hr__plan_range(300, 3, "x", &p, err));
    HR_GO(hr_plan_slice(p, 50, 250, &some, err));
    HR_GO(hr__split_new(some, 2, HR_TAIL_UNEVEN, &o, &s, err));
    HR_GO(hr__split_lanes(s, 4, 2, err));
    hr__split_expect(s, 1);
    hr__split_join(s, 1, 1);
    HR_GO(hr__split_begin(s, 1, &q, -1, err));
    do {
        hr_table_unref(t);
        HR_GO(hr__split_next(s, 1, 0, -1, &t, err));
        if (t && !text)
            HR_GO(hr__split_position_of(s, 1, 0, &text, err));
    } while (t);
    hr__split_leave(s, 1);
    HR_GO(hr__split_restore(s, text, NULL, err));
    HR_GO(hr__split_begin(s, 1, &q, -1, err));
    HR_GO(hr__split_next(s, 1, 0, -1, &t, err));
done:
    hr_table_unref(t);
    if (s)
        hr__split_close(s);
    hr__split_unref(s);
    hr_plan_unref(some);
    hr_plan_unref(p);
    hr_string_free(text);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    run_with_faults(one_host, HR_FAULT_MEMORY | MAY_RECOVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_operators_in_lanes),
        cmocka_unit_test(test_missing_rows),
        cmocka_unit_test(test_local_shuffle),
        cmocka_unit_test(test_plans_without_lanes),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_other_hosts),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
