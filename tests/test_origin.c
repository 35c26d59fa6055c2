/* test_origin.c - coordinates: runs that join, look-up, and slices, takes, joins compared with lists of coordinates. */
#include "arrays.h"

static const struct {
    hr_run_coords runs[4];
    int n, want; /* runs in, stretches kept */
} joins[] = {
    { { { { .row = 0 }, 5, false }, { { .row = 5 }, 3, false } }, 2, 1 },
    { { { { .row = 0 }, 5, false }, { { .row = 6 }, 3, false } }, 2, 1 },                /* picks */
    { { { { .row = 0 }, 5, false }, { { .row = 6 }, 99, false } }, 2, 2 },               /* too long for picks */
    { { { { .row = 0 }, 5, false }, { { .row = 4 }, 3, false } }, 2, 1 },                /* a row twice */
    { { { { .row = 0 }, 5, false }, { { .row = 3 }, 3, false } }, 2, 2 },                /* back */
    { { { { .row = 0 }, 1, false }, { { .row = INT64_C(1) << 32 }, 1, false } }, 2, 2 }, /* too far */
    { { { { .row = 0 }, 1, false }, { { .row = UINT32_MAX - 1 }, 2, false } }, 2, 1 },   /* just not */
    { { { { .row = 0 }, 5, false }, { { .row = 6, .ordinal = 1 }, 3, false } }, 2, 2 },
    { { { { .row = 0 }, 1, true }, { { .row = 1 }, 1, true } }, 2, 1 }, /* single rows go either way */
    { { { { .row = 7 }, 1, false }, { { .row = 7, .ordinal = 1 }, 1, false } }, 2, 1 },
    { { { { .row = 7 }, 2, true }, { { .row = 7, .ordinal = 2 }, 4, true } }, 2, 1 },
    { { { { .row = 7 }, 2, true }, { { .row = 9 }, 4, false } }, 2, 2 },
    { { { { .row = 7 }, 2, false }, { { .row = 9 }, 4, true } }, 2, 2 },
    { { { { .row = 0 }, 5, false }, { { .row = 5, .file = 1 }, 3, false } }, 2, 2 },
    { { { { .row = 0 }, 5, false }, { { .row = 5, .fragment = 1 }, 3, false } }, 2, 2 },
    { { { { .row = 0 }, 5, false }, { { .row = 5, .instance = 1 }, 3, false } }, 2, 2 },
    { { { { .row = 0 }, 5, false }, { { .row = 99 }, 0, false }, { { .row = 5 }, 1, false } }, 3, 1 },
    { { { { .row = 3 }, 1, false }, { { .row = 3 }, 1, false } }, 2, 1 },
    { { { { 0 }, 0, false } }, 1, 0 },
    { { { { 0 }, 0, false } }, 0, 0 },
};

static void runs_join(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(joins); i++) {
        hr_origin *o = NULL;
        hr_error err = HR_ERROR_INIT;
        int64_t n_rows = 0;

        for (int k = 0; k < joins[i].n; k++)
            n_rows += joins[i].runs[k].n;
        assert_ok(hr__origin_new(joins[i].runs, joins[i].n, &o, &err), &err);
        assert_int_equal(hr__origin_stretches(o), joins[i].want);
        assert_int_equal(hr__origin_rows(o), n_rows);
        hr__origin_unref(o);
    }
}

/* The one-run origin is a single block: what almost every table has. */
static void one_run_is_one_block(void **state)
{
    live_memory before = live_now();
    hr_origin *o = NULL;
    hr_coord c = { .row = 5 };

    (void)state;
    assert_int_equal(hr__origin_made(c, 100, &o, NULL), HR_OK);
    assert_int_equal(hr__live_blocks(), before.blocks + 1);
    assert_int_equal(hr__origin_at(o, 99).ordinal, 99);
    assert_int_equal(hr__origin_at(o, 99).row, 5);
    assert_int_equal(hr__origin_at(o, 100).row, -1);
    assert_int_equal(hr__origin_at(o, -1).row, -1);
    hr__origin_unref(hr__origin_ref(o));
    hr__origin_unref(o);
    hr__origin_unref(NULL);
    assert_null(hr__origin_ref(NULL));
    assert_no_leak(before);
}

enum { MOST = 400 };

/* Random runs, and the coordinates of each row. */
static hr_origin *random_origin(uint64_t *seed, hr_coord coords[MOST], int64_t *n_rows)
{
    hr_run_coords runs[12] = { 0 };
    int n = (int)random_below(seed, HR_LEN(runs));
    hr_origin *o = NULL;

    *n_rows = 0;
    for (int i = 0; i < n; i++) {
        hr_run_coords *r = &runs[i];

        r->first = (hr_coord){ .file = (int32_t)random_below(seed, 2),
                               .fragment = (int32_t)random_below(seed, 2),
                               .row = random_below(seed, 30),
                               .ordinal = random_below(seed, 2) };
        r->n = random_below(seed, 3) ? random_below(seed, 3) : random_below(seed, 30);
        r->by_ordinal = random_below(seed, 3) == 0;
        if (i && random_below(seed, 2)) { /* goes on where the one before ended */
            r->first = runs[i - 1].first;
            r->by_ordinal = runs[i - 1].by_ordinal;
            r->first.row += r->by_ordinal ? 0 : runs[i - 1].n;
            r->first.ordinal += r->by_ordinal ? runs[i - 1].n : 0;
        }
        for (int64_t k = 0; k < r->n; k++) {
            coords[*n_rows] = r->first;
            coords[*n_rows].row += r->by_ordinal ? 0 : k;
            coords[(*n_rows)++].ordinal += r->by_ordinal ? k : 0;
        }
    }
    assert_int_equal(hr__origin_new(runs, n, &o, NULL), HR_OK);
    return o;
}

static void assert_coords(const hr_origin *o, const hr_coord *coords, int64_t n)
{
    assert_int_equal(hr__origin_rows(o), n);
    for (int64_t i = 0; i < n; i++) {
        hr_coord c = hr__origin_at(o, i);

        assert_memory_equal(&c, &coords[i], sizeof c);
    }
}

/* Row by row gives no more stretches than there are. */
static void assert_canonical(const hr_origin *o)
{
    int64_t n = hr__origin_stretches(o), n_rows = hr__origin_rows(o);
    hr_run_coords ones[MOST] = { 0 };
    hr_origin *again = NULL;

    for (int64_t i = 0; i < n_rows; i++)
        ones[i] = (hr_run_coords){ hr__origin_at(o, i), 1, false };
    assert_int_equal(hr__origin_new(ones, n_rows, &again, NULL), HR_OK);
    assert_in_range(hr__origin_stretches(again), 0, n);
    for (int64_t i = 0; i < n_rows; i++)
        assert_memory_equal(&(hr_coord[]){ hr__origin_at(again, i) }, &ones[i].first, sizeof(hr_coord));
    hr__origin_unref(again);
}

static void random_slices(void **state)
{
    uint64_t seed = 1;
    hr_coord coords[MOST];

    (void)state;
    for (int round = 0; round < 300; round++) {
        int64_t n = 0, begin, length;
        hr_origin *o = random_origin(&seed, coords, &n), *part = NULL;

        assert_coords(o, coords, n);
        assert_canonical(o);
        begin = random_below(&seed, n + 1);
        length = random_below(&seed, n - begin + 1);
        assert_int_equal(hr__origin_slice(o, begin, length, &part, NULL), HR_OK);
        assert_coords(part, coords + begin, length);
        hr__origin_unref(part);
        assert_int_equal(hr__origin_slice(o, begin, n - begin + 1, &part, NULL), HR_BUG);
        assert_int_equal(hr__origin_slice(o, -1, 0, &part, NULL), HR_BUG);
        assert_null(part);
        hr__origin_unref(o);
    }
}

static void random_takes(void **state)
{
    uint64_t seed = 2;
    hr_coord coords[MOST], want[100], none = { -1, -1, -1, -1, -1, -1 };

    (void)state;
    for (int round = 0; round < 300; round++) {
        int64_t n = 0, n_taken = random_below(&seed, 100), idx[100], row = 0;
        int32_t idx32[100];
        hr_origin *o = random_origin(&seed, coords, &n), *taken = NULL;

        for (int64_t i = 0; i < n_taken; i++) {
            row = random_below(&seed, 3) && row + 1 < n ? row + 1
                  : n && random_below(&seed, 9)         ? random_below(&seed, n)
                                                        : -1;
            idx[i] = idx32[i] = (int32_t)row;
            want[i] = row < 0 ? none : coords[row];
        }
        assert_int_equal(hr__origin_take(o, idx, 8, n_taken, &taken, NULL), HR_OK);
        assert_coords(taken, want, n_taken);
        hr__origin_unref(taken);
        assert_int_equal(hr__origin_take(o, idx32, 4, n_taken, &taken, NULL), HR_OK);
        assert_coords(taken, want, n_taken);
        hr__origin_unref(taken);
        idx[0] = n;
        assert_int_equal(hr__origin_take(o, idx, 8, 1, &taken, NULL), HR_BUG);
        hr__origin_unref(o);
    }
}

static void random_concats(void **state)
{
    uint64_t seed = 3;
    hr_coord coords[3 * MOST];

    (void)state;
    for (int round = 0; round < 200; round++) {
        hr_origin *parts[3], *joined = NULL, *other = NULL;
        int64_t n = 0, more = 0;
        int n_parts = (int)random_below(&seed, 4);

        for (int i = 0; i < n_parts; i++) {
            parts[i] = random_origin(&seed, coords + n, &more);
            n += more;
        }
        assert_int_equal(hr__origin_concat(parts, n_parts, &joined, NULL), HR_OK);
        assert_coords(joined, coords, n);
        assert_int_equal(hr__origin_instance(joined, 7, &other, NULL), HR_OK);
        for (int64_t i = 0; i < n; i++)
            coords[i].instance = 7;
        assert_coords(other, coords, n);
        hr__origin_unref(joined);
        hr__origin_unref(other);
        for (int i = 0; i < n_parts; i++)
            hr__origin_unref(parts[i]);
    }
}

/* What a filter leaves, and slices of it: coordinates are right, and all of it is one stretch. */
static void a_filter_leaves_one_stretch(void **state)
{
    uint64_t seed = 4;

    (void)state;
    for (int round = 0; round < 50; round++) {
        hr_run_coords run = { { .file = 3, .row = INT64_C(1) << 40 }, 5000, false };
        int64_t n = 0, begin, length, most = 2 + random_below(&seed, 9);
        hr_origin *o = NULL, *kept = NULL, *part = NULL, *again = NULL;
        int32_t idx[5000], evens[2500];

        for (int i = 0; i < run.n; i++)
            if (random_below(&seed, most) == 0)
                idx[n++] = i;
        assert_int_equal(hr__origin_new(&run, 1, &o, NULL), HR_OK);
        assert_int_equal(hr__origin_take(o, idx, 4, n, &kept, NULL), HR_OK);
        assert_int_equal(hr__origin_stretches(kept), 1);
        begin = random_below(&seed, n);
        length = random_below(&seed, n - begin + 1);
        assert_int_equal(hr__origin_slice(kept, begin, length, &part, NULL), HR_OK);
        assert_in_range(hr__origin_stretches(part), 0, 1);
        for (int64_t i = 0; i < length; i++) {
            hr_run_coords r = hr__origin_run(part, i);

            assert_int_equal(hr__origin_at(part, i).row, run.first.row + idx[begin + i]);
            assert_memory_equal(&(hr_coord[]){ hr__origin_at(part, i) }, &r.first, sizeof r.first);
            assert_int_equal(idx[begin + i + r.n - 1], idx[begin + i] + r.n - 1);
            assert_true(i + r.n == length || idx[begin + i + r.n] != idx[begin + i] + r.n);
        }
        for (int i = 0; i < length / 2; i++)
            evens[i] = 2 * i;
        assert_int_equal(hr__origin_take(part, evens, 4, length / 2, &again, NULL), HR_OK);
        for (int64_t i = 0; i < length / 2; i++)
            assert_int_equal(hr__origin_at(again, i).row, run.first.row + idx[begin + 2 * i]);
        hr__origin_unref(o);
        hr__origin_unref(kept);
        hr__origin_unref(part);
        hr__origin_unref(again);
    }
}

/* Distances have 32 bits: rows that lie further apart are in stretches of their own. */
static void far_apart(void **state)
{
    const hr_run_coords run = { { .row = 7 }, INT64_C(1) << 40, false };
    const int64_t idx[] = { 0, UINT32_MAX, INT64_C(1) << 32, (INT64_C(1) << 32) + 2, INT64_C(1) << 39 };
    hr_origin *o = NULL, *kept = NULL;

    (void)state;
    assert_int_equal(hr__origin_new(&run, 1, &o, NULL), HR_OK);
    assert_int_equal(hr__origin_take(o, idx, 8, HR_LEN(idx), &kept, NULL), HR_OK);
    assert_int_equal(hr__origin_stretches(kept), 3);
    for (int i = 0; i < HR_LEN(idx); i++)
        assert_int_equal(hr__origin_at(kept, i).row, 7 + idx[i]);
    hr__origin_unref(o);
    hr__origin_unref(kept);
}

static void random_blocks(void **state)
{
    uint64_t seed = 5;
    hr_coord coords[MOST];

    (void)state;
    for (int round = 0; round < 300; round++) {
        int64_t n = 0, rows = 1 + random_below(&seed, 12), want;
        hr_origin *o = random_origin(&seed, coords, &n);

        for (int64_t row = 0; row < n; row++) {
            const hr_coord *a = &coords[row], *b;

            for (want = 0; row + want < n; want++) {
                b = &coords[row + want];
                if (a->file != b->file || a->fragment != b->fragment || a->row / rows != b->row / rows)
                    break;
            }
            assert_int_equal(hr__origin_in_block(o, row, rows), want);
        }
        hr__origin_unref(o);
    }
}

static hr_status make_origins(hr_error *err)
{
    static const hr_run_coords runs[] = { { { .row = 0 }, 5, false },
                                          { { .row = 9 }, 5, false },
                                          { { .row = 20 }, 5, true } };
    static const int32_t idx[] = { 9, 3, 1, 14, 0 };
    hr_origin *o = NULL, *part = NULL, *taken = NULL, *joined = NULL, *other = NULL, *parts[2];
    hr_status st = HR_OK;

    HR_GO(hr__origin_new(runs, HR_LEN(runs), &o, err));
    HR_GO(hr__origin_slice(o, 3, 9, &part, err));
    HR_GO(hr__origin_take(o, idx, 4, HR_LEN(idx), &taken, err));
    parts[0] = o;
    parts[1] = taken;
    HR_GO(hr__origin_concat(parts, 2, &joined, err));
    HR_GO(hr__origin_instance(joined, 1, &other, err));
done:
    hr__origin_unref(o);
    hr__origin_unref(part);
    hr__origin_unref(taken);
    hr__origin_unref(joined);
    hr__origin_unref(other);
    return st;
}

static void faults(void **state)
{
    (void)state;
    run_with_faults(make_origins, HR_FAULT_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_join),
        cmocka_unit_test(one_run_is_one_block),
        cmocka_unit_test(random_slices),
        cmocka_unit_test(random_takes),
        cmocka_unit_test(a_filter_leaves_one_stretch),
        cmocka_unit_test(random_blocks),
        cmocka_unit_test(far_apart),
        cmocka_unit_test(random_concats),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
